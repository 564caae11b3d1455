// A bucket with a bound: what it holds stays within it while many put; it evicts what nothing pins, tells it, and
// nothing else. Over RADOS a bound is refused.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <mutex>

#include "s3/workers/bounds_worker.h"
#include "simulator/register.h"
#include "simulator/scene.h"
#include "simulator/values.h"
#include "store/key_pins.h"

namespace verbena::simulator {
namespace {

constexpr const char* bounded_bucket = "bounded";

// The keys that have an object, by what the engine told.
class ToldKeys final : public store::ChangeListener {
 public:
  void told(uint64_t /*bucket*/, const store::KeyChangePtr& change) override {
    using store::KeyEvent;
    const bool left = change->what == KeyEvent::removed || change->what == KeyEvent::evicted;
    const std::lock_guard lock(mutex_);
    there_[change->key] = !left;
    evicted_ += change->what == KeyEvent::evicted ? 1 : 0;
  }
  void lost_track(uint64_t /*bucket*/) override {
    const std::lock_guard lock(mutex_);
    lost_ = true;
  }
  void bucket_removed(uint64_t /*bucket*/) override {}
  std::map<std::string, bool> there() const {
    const std::lock_guard lock(mutex_);
    return lost_ ? std::map<std::string, bool>() : there_;
  }
  uint64_t evicted() const {
    const std::lock_guard lock(mutex_);
    return evicted_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, bool> there_;
  uint64_t evicted_ = 0;
  bool lost_ = false;
};

class Bounded final : public Scene {
 public:
  explicit Bounded(World& world) : Scene(world, "bounded") {}

  void begin(Loop& loop) override {
    make_bucket(loop, bounded_bucket);
    set_bound(loop);
  }
  void opened(World::Server& server) override;
  // The store's threads may still be waking the worker's loop.
  void closes(World::Server& server) override {
    if (const auto found = kept_.find(server.number); found != kept_.end()) found->second->worker->stop();
  }
  void gone(size_t server) override { kept_.erase(server); }
  void begin_round(Loop& loop) override;
  void act(Loop& loop) override;
  void crash() override;
  void look(Loop& loop) override {
    for (size_t at = 0; at < keys_count; ++at) read(loop, at);
  }
  void settle(Loop& loop) override;

 private:
  static constexpr size_t keys_count = 10;
  struct Key {
    Register<uint32_t> content{};  // 0: no object
    uint64_t pins = 0, turns = 0;  // turns: first pins, and ends of the last ones
    bool binding = false;          // the pins are older than any eviction
  };
  struct Pinned {  // whether a key stays pinned from here on
    bool now;
    uint64_t turns;
    explicit Pinned(const Key& key) : now(key.pins != 0 && key.binding), turns(key.turns) {}
    bool still(const Key& key) const { return now && turns == key.turns; }
  };
  struct Limits {
    uint64_t bytes = UINT64_MAX, objects = UINT64_MAX;
    bool operator==(const Limits&) const = default;
    bool allows(uint64_t held, uint64_t count) const { return held <= bytes && count <= objects; }
  };
  struct Kept {  // of a server
    s3::BucketBounds bounds{};
    std::unique_ptr<s3::BoundsWorker> worker{};
  };
  struct Write {
    bool pinned = false;  // something was, at some time of it
    bool old = false;     // it began before the bound
  };

  static std::string name(size_t at) { return fmt::format("b{}", at); }
  static std::string target(size_t at) { return fmt::format("/{}/{}", bounded_bucket, name(at)); }
  uint64_t draw_size() {
    constexpr uint64_t sizes[] = {8, 8, 300, 5000, 20'000, 40'000};
    return sizes[draw(6)];
  }
  store::ChangeFeeds* feeds() { return dynamic_cast<store::ChangeFeeds*>(server().store.get()); }
  bool any_pinned() const {
    return std::ranges::any_of(keys_, [](const Key& key) { return key.pins != 0; });
  }

  void set_bound(Loop& loop);
  std::string put(Loop& loop, size_t at, uint64_t size);  // returns the error's code
  void put_twice(size_t at);
  void remove(Loop& loop, size_t at);
  bool read(Loop& loop, size_t at);  // whether it is there
  void lease(Loop& loop, size_t at);
  void pin(size_t at);
  void unpin(size_t at);
  void may_be_evicted(size_t at);
  void judge_full(const Write& write, uint64_t size, const Reply& reply);
  void check_bound();
  void check_contents(Loop& loop);
  void probe_pinned(Loop& loop);

  std::array<Key, keys_count> keys_{};
  std::map<size_t, std::unique_ptr<Kept>> kept_;  // by server
  std::list<Write> writes_;                       // under way
  std::shared_ptr<ToldKeys> told_;
  Limits limits_{};
  bool is_bounded_ = false, sure_ = false, met_ = false, changes_ = false;
};

void Bounded::opened(World::Server& server) {
  auto* const feeds = dynamic_cast<store::ChangeFeeds*>(server.store.get());
  if (feeds == nullptr || shared()) return;
  auto& kept = kept_[server.number];
  kept = std::make_unique<Kept>();
  server.service->bounds = &kept->bounds;
  kept->worker = std::make_unique<s3::BoundsWorker>(*server.service, *feeds);
  kept->worker->start();
}

void Bounded::begin_round(Loop& loop) {
  told_ = std::make_shared<ToldKeys>();
  if (!shared() && feeds() != nullptr) {
    if (const auto feed = feeds()->feed(bounded_bucket)) (void)(*feed)->listen(told_);
  }
  if (draw(3) == 0) set_bound(loop);
}

void Bounded::crash() {
  for (size_t at = 0; at < keys_count; ++at) {
    keys_[at].content.release();
    while (keys_[at].pins != 0) unpin(at);
    may_be_evicted(at);
  }
  writes_.clear();
  changes_ = false;
}

void Bounded::act(Loop& loop) {
  if (!is_bounded_) {
    if (draw(4) == 0) set_bound(loop);
    return;
  }
  const size_t at = draw(keys_count);
  const uint64_t choice = draw(40);
  if (choice < 1) return set_bound(loop);
  if (choice < 16) return (void)put(loop, at, draw_size());
  if (choice < 20) return put_twice(at);
  if (choice < 22) return remove(loop, at);
  if (choice < 28) return lease(loop, at);
  (void)read(loop, at);
}

// --- The bound -------------------------------------------------------------------------------------------------------

// One client at a time. Until all writes that began before it have ended, it may be exceeded.
void Bounded::set_bound(Loop& loop) {
  if (changes_) return;
  changes_ = true;
  Limits next;
  if (draw(3) != 0) next.bytes = 50'000 + draw(100'000);
  if (draw(3) != 0 || next == Limits{}) next.objects = 2 + draw(7);
  constexpr const char* policies[] = {"s3-fifo", "lru", "ttl"};
  std::string text = fmt::format("<Policy>{}</Policy><RenewOnRead>{}</RenewOnRead>", policies[draw(3)], draw(2) == 0);
  if (next.bytes != UINT64_MAX) text += fmt::format("<MaxBytes>{}</MaxBytes>", next.bytes);
  if (next.objects != UINT64_MAX) text += fmt::format("<MaxObjects>{}</MaxObjects>", next.objects);
  sure_ = met_ = false;
  const Reply reply = ask(loop, "PUT", fmt::format("/{}?verbena-bound", bounded_bucket), {},
                          "<BoundConfiguration>" + text + "</BoundConfiguration>");
  changes_ = false;
  if (shared()) {
    if (reply.ok()) fail_with("a bound over RADOS was accepted");
    return;
  }
  if (!reply.ok()) return note_failure("a bound", reply);
  limits_ = next;
  sure_ = is_bounded_ = true;
  for (Write& write : writes_) write.old = true;
}

void Bounded::check_bound() {
  if (!sure_ || shared() || befell()) return;
  // Others go on while it is read, and it is of a moment before: seed 10 of 800 operations read what there was before
  // the last eviction, when another client had seen the bound met.
  const bool was_met = met_;
  const Limits limits = limits_;
  const auto usage = server().store->usage_now(bounded_bucket);
  if (!usage || !sure_ || !(limits == limits_)) return;
  const bool allowed = limits_.allows(usage->bucket.bytes, usage->bucket.objects);
  if (was_met && met_ && !allowed && !befell()) {
    return fail_with(fmt::format("holds {} bytes and {} objects: the bound is {} and {}", usage->bucket.bytes,
                                 usage->bucket.objects, limits_.bytes, limits_.objects));
  }
  met_ = allowed && std::ranges::none_of(writes_, [](const Write& write) { return write.old; });
}

// --- What clients do -------------------------------------------------------------------------------------------------

// Unless it is pinned, from now on.
void Bounded::may_be_evicted(size_t at) {
  if (keys_[at].pins == 0 || !keys_[at].binding || befell()) keys_[at].content.add({0});
}

std::string Bounded::put(Loop& loop, size_t at, uint64_t size) {
  Key& key = keys_[at];
  if (key.content.busy()) return "busy";
  const uint32_t content = values().add(size);
  if (key.content.busy()) return "busy";  // since the value was made
  const Pinned pinned(key);
  key.content.begin({content});
  const auto write = writes_.insert(writes_.end(), Write{.pinned = any_pinned()});
  s3::Headers headers;
  if (draw(3) == 0) headers.emplace_back("x-verbena-ttl", std::to_string(100'000'000 + draw(1000)));
  const Reply reply = ask(loop, "PUT", target(at), std::move(headers), values().bytes(content));
  if (reply.ok()) {
    key.content.done(content);
    if (!pinned.still(key)) key.content.add({0});
  } else if (reply.code == "InsufficientStorage") {
    key.content.refused();
    judge_full(*write, size, reply);
  } else {
    note_failure("a put", reply);
    if (!befell() && reply.body.find("evictions take too long") != std::string::npos) {
      fail_with("evictions took longer than a put waits");
    }
    key.content.unknown(settled());
  }
  writes_.erase(write);
  may_be_evicted(at);
  check_bound();
  return reply.ok() ? std::string() : reply.code;
}

// Two at once: what the key has then is one of them.
void Bounded::put_twice(size_t at) {
  Key& key = keys_[at];
  if (key.content.busy() || shared()) return;
  const std::array contents{values().add(draw_size()), values().add(draw_size())};
  if (key.content.busy()) return;  // since the values were made
  const Pinned pinned(key);
  key.content.begin({contents[0], contents[1]});
  const auto write = writes_.insert(writes_.end(), Write{.pinned = any_pinned()});
  std::array<Reply, 2> replies;
  std::vector<std::function<void(Loop&)>> calls;
  for (size_t i = 0; i < 2; ++i) {
    calls.emplace_back(
        [&, i](Loop& own) { replies[i] = ask(own, "PUT", target(at), {}, values().bytes(contents[i])); });
  }
  together(calls);
  std::vector<uint32_t> now;
  bool open = false;
  for (size_t i = 0; i < 2; ++i) {
    if (replies[i].ok()) {
      now.push_back(contents[i]);
    } else if (replies[i].code == "InsufficientStorage") {
      judge_full(*write, values().size(contents[i]), replies[i]);
    } else {
      note_failure("one of two puts", replies[i]);
      open = true;
    }
  }
  if (open) {
    key.content.unknown(settled());
  } else if (now.empty()) {
    key.content.refused();
  } else {
    key.content.done_as(now);
    if (!pinned.still(key)) key.content.add({0});
  }
  writes_.erase(write);
  may_be_evicted(at);
  check_bound();
}

// All else is pinned, or it is larger than the bound, which may be another one by now.
void Bounded::judge_full(const Write& write, uint64_t size, const Reply& reply) {
  if (write.pinned || write.old || !sure_ || changes_ || befell() || size > limits_.bytes) return;
  fail_with(fmt::format("{} bytes were refused, though nothing is pinned: {}", size, reply.body));
}

void Bounded::remove(Loop& loop, size_t at) {
  Key& key = keys_[at];
  if (key.content.busy()) return;
  key.content.begin({0});
  const Reply reply = ask(loop, "DELETE", target(at));
  if (reply.ok()) return key.content.done(0);
  note_failure("a removal", reply);
  key.content.unknown(settled());
  may_be_evicted(at);
}

bool Bounded::read(Loop& loop, size_t at) {
  Key& key = keys_[at];
  const Pinned pinned(key);
  const auto reading = key.content.begin_read();
  const Reply reply = ask(loop, "GET", target(at));
  uint32_t content = 0;
  if (reply.ok()) {
    std::vector<uint32_t> contents;
    const bool whole = values().split(reply.body, contents) && contents.size() == 1;
    content = whole ? contents[0] : UINT32_MAX;
  } else if (reply.code != "NoSuchKey") {
    key.content.end_read(reading);
    note_failure("a get", reply);
    return false;
  }
  // An eviction may have followed, unless a pin from before has held it off, or such a one has shown that it is there.
  const bool may_go = (!pinned.still(key) || befell()) && key.content.may_be().contains(0);
  if (befell()) key.content.add({0});  // an eviction that failed may be carried out yet
  std::string text;
  for (const uint32_t one : reading->may_be) text += fmt::format(" {}", one);
  if (!key.content.end_read(reading, [&](uint32_t one) { return one == content; })) {
    fail_with(fmt::format("{} has the content {} (0: none), with {} pins: it was one of{}", name(at), content, key.pins,
                          text));
  }
  if (may_go) key.content.add({0});
  return content != 0;
}

void Bounded::pin(size_t at) {
  if (keys_[at].pins++ == 0) ++keys_[at].turns;
  store::KeyPins::get().pin(bounded_bucket, name(at));
  for (Write& write : writes_) write.pinned = true;
}

void Bounded::unpin(size_t at) {
  if (--keys_[at].pins == 0) {
    ++keys_[at].turns;
    keys_[at].binding = false;
  }
  store::KeyPins::get().unpin(bounded_bucket, name(at));
  may_be_evicted(at);
}

// First the pin, then a look; what is found then stays, once no eviction from before the pin is under way.
void Bounded::lease(Loop& loop, size_t at) {
  constexpr int64_t longest_commit_ns = 1'000'000'000;
  pin(at);
  sleep_for(longest_commit_ns);
  if (keys_[at].pins == 0) return;  // after a crash
  keys_[at].binding = true;
  bool there = read(loop, at);
  for (uint64_t times = draw(4); times > 0 && there && keys_[at].pins != 0; --times) {
    sleep_for(static_cast<int64_t>(draw(300'000'000)));
    there = read(loop, at);
  }
  if (keys_[at].pins != 0) unpin(at);
}

// --- The end of a round ----------------------------------------------------------------------------------------------

void Bounded::settle(Loop& loop) {
  if (!is_bounded_) return;
  check_contents(loop);
  if (sure_ && !befell()) probe_pinned(loop);
}

// The bound is met without a write, and what was told of keys is so.
void Bounded::check_contents(Loop& loop) {
  constexpr int passes_max = 10;
  for (int passed = 0; sure_; ++passed) {
    const auto usage = server().store->usage_now(bounded_bucket);
    if (befell() || !usage || limits_.allows(usage->bucket.bytes, usage->bucket.objects)) break;
    if (passed == passes_max) return fail_with("the bound is not met without a write");
    sleep_for(1'000'000'000);
  }
  sleep_for(3'000'000'000);  // of evictions ahead
  const auto page = run_on(loop, server().store->list(bounded_bucket, {}));
  const auto usage = run_on(loop, server().store->bucket_usage(bounded_bucket));
  if (befell() || !page || !usage) return;
  uint64_t bytes = 0;
  std::map<std::string, bool> listed;
  for (const auto& entry : page->entries) {
    bytes += entry.info.size;
    listed[entry.key] = true;
  }
  if (usage->objects != listed.size() || usage->bytes != bytes) {
    return fail_with(fmt::format("usage: {} objects of {} bytes; listed {} of {}", usage->objects, usage->bytes,
                                 listed.size(), bytes));
  }
  for (const auto& [key, there] : told_->there()) {
    if (there != listed.contains(key)) fail_with(key + (there ? " is gone, which was not told" : " is there again"));
  }
}

// A bucket of pinned objects takes no further one; as soon as one may go, it does.
void Bounded::probe_pinned(Loop& loop) {
  std::vector<size_t> there;
  for (size_t at = 0; at < keys_count; ++at) {
    pin(at);
    keys_[at].binding = true;  // no eviction is under way
    if (read(loop, at)) there.push_back(at);
  }
  const bool is_full = there.size() == limits_.objects;
  size_t absent = 0;
  while (absent < keys_count && std::ranges::find(there, absent) != there.end()) ++absent;
  if (is_full && absent < keys_count && !befell()) {
    if (put(loop, absent, 8).empty() && !befell()) fail_with("a bucket of pinned objects took one more");
    for (const size_t at : there) {
      if (!read(loop, at) && !befell()) fail_with(name(at) + " was pinned, and is gone");
    }
  }
  for (size_t at = 0; at < keys_count; ++at) unpin(at);
  (void)put(loop, absent < keys_count ? absent : 0, 8);
}

}  // namespace

std::unique_ptr<Scene> make_bounded(World& world) { return std::make_unique<Bounded>(world); }

}  // namespace verbena::simulator
