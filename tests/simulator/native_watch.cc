// Watches, and what they promise: every change that began after the watch did, or a gap; a change is told when it can
// be read; the last that is told of a key is its state.
#include <fmt/format.h>

#include "client/native/watch.h"
#include "simulator/native.h"
#include "simulator/scheduler.h"
#include "simulator/server.h"

namespace verbena::simulator {
namespace {

using Kind = Operation::Kind;
using Outcome = Operation::Outcome;
using store::KeyEvent;

bool has_object(uint8_t what) {
  const auto event = static_cast<KeyEvent>(what);
  return event == KeyEvent::created || event == KeyEvent::appended || event == KeyEvent::changed ||
         event == KeyEvent::renamed_here;
}

}  // namespace

// The commit of a put that is told can be read from now on.
void World::Native::began(Operation& operation) {
  if (operation.kind == Kind::put && operation.value == operation.content) open_[operation.value] = &operation;
}

void World::Native::ended(const Operation& operation) {
  const auto open = open_.find(operation.value);
  if (open != open_.end() && open->second == &operation) open_.erase(open);
}

void World::Native::answered(const Bucket& bucket, const Operation& operation) {
  if (operation.kind != Kind::put || operation.outcome != Outcome::done) return;
  for (Watcher& watcher : watchers_) {
    if (watcher.bucket == &bucket && watcher.is_open()) watcher.owed.emplace_back(operation.begin, operation);
  }
}

void World::Native::watch(Watcher& watcher) {
  while (!over_ && !world_.engine_->stopped(below_->number)) {
    look(watcher, world_.draw_ns(60));
    sleep_for(world_.draw_ns(draw(8) == 0 ? 100 : 2));
    if (draw(200) == 0) watcher.watch.reset();
  }
}

// False: nothing was told.
bool World::Native::look(Watcher& watcher, int64_t for_ns) {
  const auto session = this->session(watcher.slot);
  if (session == nullptr) return false;
  const Attempt by = attempt(watcher.slot, session);
  if (!watcher.is_open()) {
    auto opened = client::NativeWatch::open(session, watcher.bucket->name, "", {});
    if (!opened) {
      note_error(by, "a watch", opened.error());
      return false;
    }
    watcher.watch = std::move(*opened);
    tell(watcher, {.gap = true, .changes = {}});
  }
  auto news = watcher.watch->next(deadline_in(std::chrono::nanoseconds(for_ns)), {});
  if (!news) {
    note_error(by, "a watch's next", news.error());
    return false;
  }
  succeeded(by);
  tell(watcher, *news);
  return news->gap || !news->changes.empty();
}

void World::Native::tell(Watcher& watcher, const client::NativeNews& news) {
  if (news.gap) {
    watcher.since = ++world_.order_;
    watcher.last.clear();
    watcher.created.clear();
    watcher.owed.clear();
  }
  const Model& model = watcher.bucket->history.model();
  for (const client::NativeChange& change : news.changes) {
    uint32_t key = 0;
    while (key < model.keys() && model.key(key) != change.key) ++key;
    if (key == model.keys()) return world_.fail_with("native: a watch tells of " + change.key);
    watcher.last[key] = {change.what, change.etag};
    if (watcher.bucket->kind == BucketKind::directory || !has_object(change.what)) continue;
    const uint32_t value = world_.values_.named(change.etag);
    if (value == 0) return world_.fail_with(fmt::format("native: a watch tells of {} {}", change.key, change.etag));
    if (static_cast<KeyEvent>(change.what) == KeyEvent::created) ++watcher.created[{key, value}];
    if (const auto open = open_.find(value); open != open_.end()) {
      open->second->end = std::min(open->second->end, ++world_.order_);
    }
  }
}

// No client works. While nothing failed: all that was owed has been told.
void World::Native::judge(Watcher& watcher, Loop& loop) {
  constexpr int64_t ms = 1'000'000;
  constexpr int looks_max = 40;
  Bucket& bucket = *watcher.bucket;
  const Model& model = bucket.history.model();
  bool still = false;
  for (int i = 0; i < looks_max && !still && !world_.engine_->befell(); ++i) {
    if (look(watcher, 400 * ms) || !watcher.is_open()) continue;
    std::map<uint32_t, std::string> etags;
    for (const auto& [key, last] : watcher.last) {
      const auto info = run_on(loop, below_->store->stat(bucket.name, model.key(key), {}));
      etags[key] = info ? info->etag : "";
    }
    if (look(watcher, 400 * ms)) continue;
    still = true;
    for (const auto& [key, last] : watcher.last) {
      if (bucket.versioned()) break;
      const std::string expected = has_object(last.what) ? last.etag : "";
      if (etags[key] == expected || world_.engine_->befell()) continue;
      world_.fail_with(fmt::format("native: of {}/{} a watch told last: {} {}; now it is {}", bucket.name,
                                   model.key(key), last.what, last.etag, etags[key]));
    }
  }
  if (still && !world_.engine_->befell() && bucket.kind != BucketKind::directory) {
    for (const auto& [begin, put] : watcher.owed) {
      if (begin <= watcher.since || --watcher.created[{put.key, put.content}] >= 0) continue;
      world_.fail_with(fmt::format("native: no watch told that {}/{} was made with {}", bucket.name, model.key(put.key),
                                   put.content));
    }
  }
  watcher.watch.reset();
  watcher.slot.session.reset();
  watcher.owed.clear();
  watcher.last.clear();
  watcher.created.clear();
}

}  // namespace verbena::simulator
