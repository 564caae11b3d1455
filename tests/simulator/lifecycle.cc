// Lifecycle configurations that change while passes run, and what must have gone by them.
#include <fmt/format.h>

#include <set>

#include "simulator/scheduler.h"
#include "simulator/server.h"

namespace verbena::simulator {
namespace {

void note_alone(const std::vector<store::VersionEntry>& listed, std::set<std::string>& alone) {
  for (size_t at = 0; at < listed.size(); ++at) {
    const std::string& key = listed[at].key;
    const bool others = (at > 0 && listed[at - 1].key == key) || (at + 1 < listed.size() && listed[at + 1].key == key);
    if (!others && listed[at].info.delete_marker) alone.insert(listed[at].info.version_id);
  }
}

std::string told(const std::vector<store::VersionEntry>& listed) {
  std::string text;
  for (const store::VersionEntry& entry : listed) {
    const store::ObjectInfo& info = entry.info;
    text += fmt::format("\n  {} {} of {} us, {} bytes{}{}", entry.key, info.version_id, info.modified_us, info.size,
                        info.delete_marker ? ", a marker" : "", info.lock == store::ObjectLock{} ? "" : ", locked");
    for (const auto& tag : info.tags) text += ", tag " + tag.second;
  }
  return text;
}

}  // namespace

void World::set_rules(Loop& loop, Bucket& bucket) {
  if (bucket.kind == BucketKind::directory || !plan_.has("rules")) return;
  // One after the other: of two at once nothing would tell which is in force.
  if (std::exchange(bucket.sets_rules, true)) return;
  ++clock_;
  std::vector<Rule> rules;
  if (draw(6) != 0) rules = RuleBook::draw(bucket.versioned());
  const std::string body = rules.empty() ? "" : RuleBook::xml(rules);
  bucket.book.begin(std::move(rules), earliest_ns());
  const Reply reply = ask(loop, body.empty() ? "DELETE" : "PUT", "/" + bucket.name + "?lifecycle", {}, body);
  const int64_t by_ns = latest_ns();
  if (reply.ok()) {
    bucket.book.done(by_ns);
  } else {
    note_failure("rules", reply.body);
    sleep_for(engine_->settles_ns());
  }
  bucket.sets_rules = false;
}

// No client works; the worker has a pass each second. What becomes due by what a pass removes waits for the next one.
bool World::check_lifecycle() {
  constexpr int64_t second_ns = 1'000'000'000;
  Scheduler& scheduler = Scheduler::get();
  scheduler.sleep_until(scheduler.steady_ns() + engine_->duty_ns());
  Loop& loop = server_->loops.emplace_back();
  const int64_t due_ns = scheduler.wall_ns() + second_ns - engine_->clocks_apart_ns();
  scheduler.sleep_until(scheduler.steady_ns() + second_ns);
  std::set<std::string> alone;  // markers
  for (const Bucket& bucket : buckets_) {
    const auto page = run_on(loop, server_->store->list_versions(bucket.name, {}));
    if (page) note_alone(page->versions, alone);
  }
  scheduler.sleep_until(scheduler.steady_ns() + 3 * second_ns);
  for (Bucket& bucket : buckets_) {
    if (bucket.kind == BucketKind::directory) continue;
    const auto page = run_on(loop, server_->store->list_versions(bucket.name, {}));
    if (engine_->befell()) return true;
    if (!page) {
      fail_with("no listing without a fault");
      continue;
    }
    check_versions(bucket, page->versions, alone, due_ns);
    check_uploads(loop, bucket, due_ns);
  }
  return failure_.empty();
}

void World::check_versions(const Bucket& bucket, const std::vector<store::VersionEntry>& listed,
                           const std::set<std::string>& alone, int64_t now_ns) {
  size_t newer = 0;  // noncurrent ones of the key
  size_t late = 0;   // of them, that were not by then
  for (size_t at = 0; at < listed.size(); ++at) {
    const store::VersionEntry& entry = listed[at];
    const store::ObjectInfo& info = entry.info;
    const bool newest = at == 0 || listed[at - 1].key != entry.key;
    if (newest) newer = 0;
    if (newest) late = info.modified_us * 1000 > now_ns ? 1 : 0;
    const Facts facts{.key = entry.key,
                      .size = info.size,
                      .tag = info.tags.empty() ? 0 : static_cast<uint32_t>(std::stoul(info.tags.front().second))};
    const bool locked =
        info.lock.legal_hold || (info.lock.mode != store::LockMode::none && now_ns < info.lock.retain_until_us * 1000);
    bool must = false;
    if (!newest) {
      must = !locked && bucket.book.must_remove_noncurrent(facts, listed[at - 1].info.modified_us * 1000,
                                                           newer - std::min(newer, late), now_ns);
      ++newer;
    } else if (info.delete_marker) {
      must = alone.contains(info.version_id) && bucket.book.must_remove_marker(facts, info.modified_us * 1000, now_ns);
    } else {
      must = bucket.book.must_expire(facts, info.modified_us * 1000, now_ns);
    }
    if (must) {
      return fail_with(fmt::format("{}/{}: version {} is still there at {} us, by rules {}{}", bucket.name, entry.key,
                                   info.version_id, now_ns / 1000, RuleBook::xml(bucket.book.last()), told(listed)));
    }
  }
}

void World::check_uploads(Loop& loop, const Bucket& bucket, int64_t now_ns) {
  const auto page = run_on(loop, server_->store->list_uploads(bucket.name, {}));
  if (engine_->befell()) return;
  if (!page) return fail_with("no listing of uploads without a fault");
  for (const store::UploadInfo& upload : page->uploads) {
    if (!bucket.book.must_abort({.key = upload.key}, upload.created_us * 1000, now_ns)) continue;
    fail_with(fmt::format("upload {} of {}/{} is still there, by rules {}", upload.upload_id, bucket.name, upload.key,
                          RuleBook::xml(bucket.book.last())));
  }
}

}  // namespace verbena::simulator
