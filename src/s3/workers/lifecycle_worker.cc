#include "s3/workers/lifecycle_worker.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"
#include "s3/documents/lifecycle.h"
#include "s3/events/announce.h"
#include "s3/workers/damaged_keys.h"
#include "store/logic/damage.h"

namespace verbena::s3 {
namespace {

namespace asio = boost::asio;

// The position of a pass: the key and version marker of the next page.
constexpr std::string_view progress_document = "lifecycle-progress";
constexpr int progress_pages = 16;  // pages between two writes of it

metrics::Counter& removals() {
  static auto& counter = metrics::counter("verbena_lifecycle_removals_total", "Versions that a lifecycle rule removed");
  return counter;
}
metrics::Counter& refusals() {
  static auto& counter = metrics::counter("verbena_lifecycle_refusals_total",
                                          "Removals refused: the version changed or is locked, or a queue is full");
  return counter;
}
metrics::Counter& aborts() {
  static auto& counter = metrics::counter("verbena_lifecycle_aborts_total", "Uploads that a lifecycle rule aborted");
  return counter;
}

// The longest common prefix of all enabled rules: only keys under it are listed.
std::string common_prefix(const std::vector<LifecycleRule>& rules) {
  std::optional<std::string> common;
  for (const LifecycleRule& rule : rules) {
    if (!rule.enabled) continue;
    const std::string& prefix = rule.filter.prefix;
    if (!common) common = prefix;
    const auto differ = std::ranges::mismatch(*common, prefix);
    common->erase(differ.in1, common->end());
  }
  return common.value_or("");
}

// "@bucket NUL version id NUL key": a key may have any byte, the others are text. Older positions lack the first part
// and may be of an earlier bucket of that name.
std::string encode_progress(const store::ListVersionsRequest& at, int64_t bucket_created_us) {
  const std::string end(1, '\0');
  return "@" + std::to_string(bucket_created_us) + end + at.version_id_marker + end + at.key_marker;
}
void decode_progress(std::string_view text, int64_t bucket_created_us, store::ListVersionsRequest& at) {
  if (text.starts_with('@')) {
    const std::string own = "@" + std::to_string(bucket_created_us) + std::string(1, '\0');
    if (!text.starts_with(own)) return;
    text.remove_prefix(own.size());
  }
  const size_t end = text.find('\0');
  if (end == std::string_view::npos) return;
  at.version_id_marker = text.substr(0, end);
  at.key_marker = text.substr(end + 1);
}

std::string name_of(const store::ObjectInfo& info) { return info.version_id.empty() ? "null" : info.version_id; }

}  // namespace

store::RemovalGrounds LifecyclePass::Ground::as(store::RemovalGrounds::Of of) const {
  return {.bucket_created_us = created_us, .versioning = versioning, .rules = document, .of = of};
}

Task<> LifecyclePass::run() {
  const auto buckets = co_await store_.buckets();
  if (!buckets) co_return;
  for (const auto& info : *buckets) {
    if (ends()) co_return;
    const auto done = co_await bucket(info.name);
    if (!done && !(done.error() == Errc::no_such_bucket)) {
      log::warn("lifecycle: bucket {}: {}", info.name, describe(done.error()));
    }
  }
}

Task<Result<void>> LifecyclePass::bucket(std::string name) {
  Ground ground;
  ground.bucket = std::move(name);
  VB_CO_ASSIGN(const bool has_rules, co_await look_again(ground));
  if (!has_rules) co_return Result<void>();
  // Uploads are ended whatever became of the listing of versions: a damaged row would keep them for good.
  const auto seen = co_await versions(ground);
  const auto aborted = co_await uploads(ground);
  VB_CO_TRY(seen);
  co_return aborted;
}

Task<Result<bool>> LifecyclePass::look_again(Ground& ground) {
  static constexpr std::string_view names[] = {lifecycle_document};
  VB_CO_ASSIGN(auto now, co_await store_.bucket_and_documents(ground.bucket, names));
  if (ground.created_us != 0 && ground.created_us != now.bucket.created_us) co_return false;
  ground.created_us = now.bucket.created_us;
  ground.versioning = now.bucket.versioning;
  if (now.documents.front() == nullptr) co_return false;
  ground.document = std::move(now.documents.front());
  VB_CO_ASSIGN(ground.rules, lifecycle_rules_of(*ground.document));
  co_return std::ranges::any_of(*ground.rules, &LifecycleRule::enabled);
}

Task<Result<void>> LifecyclePass::versions(Ground& ground) {
  store::ListVersionsRequest request;
  request.max_keys = options_.page_size;
  request.passes_damage = true;
  const auto stored = co_await store_.document(ground.bucket, progress_document);
  if (stored) decode_progress(**stored, ground.created_us, request);
  Key key;
  for (int pages = 1; !ends(); ++pages) {
    request.prefix = common_prefix(*ground.rules);
    VB_CO_ASSIGN(const store::VersionPage listed, co_await store_.list_versions(ground.bucket, request));
    VB_CO_ASSIGN(bool goes_on, co_await page(ground, listed, key));
    if (ends()) co_return Result<void>();  // the page was not completed: its position is not stored
    if (goes_on && !listed.truncated) {
      co_await end_key(ground, key);
      if (stored || pages > progress_pages) co_return co_await store_.remove_document(ground.bucket, progress_document);
      co_return Result<void>();
    }
    if (goes_on) {
      VB_CO_ASSIGN(goes_on, co_await look_again(ground));
    }
    if (!goes_on) co_return Result<void>();
    request.key_marker = listed.next_key_marker;
    request.version_id_marker = listed.next_version_id_marker;
    if (pages % progress_pages == 0) {
      std::string progress = encode_progress(request, ground.created_us);
      VB_CO_TRY(co_await store_.set_document(ground.bucket, progress_document, std::move(progress)));
    }
    co_await rest();
  }
  co_return Result<void>();
}

// A refusal shows that something has changed, perhaps the bucket or its rules: reads both again.
Task<Result<bool>> LifecyclePass::page(Ground& ground, const store::VersionPage& page, Key& key) {
  tell_damaged("lifecycle", ground.bucket, page.damaged);
  // What a delete marker hides behind a damaged row is not known.
  const auto is_damaged = [&] { return std::ranges::find(page.damaged, key.name) != page.damaged.end(); };
  if (is_damaged()) key.lone_marker.reset();
  for (const auto& entry : page.versions) {
    if (ends()) co_return true;
    const Outcome outcome = co_await judge(ground, entry, key);
    if (is_damaged()) key.lone_marker.reset();
    if (outcome != Outcome::refused) continue;
    VB_CO_ASSIGN(const bool goes_on, co_await look_again(ground));
    if (!goes_on) co_return false;
  }
  co_return true;
}

Task<LifecyclePass::Outcome> LifecyclePass::judge(const Ground& ground, const store::VersionEntry& entry, Key& key) {
  if (entry.key == key.name) {
    key.lone_marker.reset();
    co_return co_await judge_version(ground, entry, key);
  }
  const Outcome ended = co_await end_key(ground, key);
  key = {};
  key.name = entry.key;
  const Outcome outcome = co_await judge_version(ground, entry, key);
  co_return ended == Outcome::refused ? ended : outcome;
}

Task<LifecyclePass::Outcome> LifecyclePass::judge_version(const Ground& ground, const store::VersionEntry& entry,
                                                          Key& key) {
  if (!entry.latest) co_return co_await judge_noncurrent(ground, entry, key);
  Outcome outcome = Outcome::stayed;
  if (entry.info.delete_marker) {
    key.lone_marker = entry;
  } else {
    const auto expiry = find_expiry(*ground.rules, entry.key, entry.info, options_.day_s);
    if (expiry && expiry->at_us <= clock_.now_us()) {
      outcome = co_await remove(ground, entry, ground.as(store::RemovalGrounds::Of::current));
    }
  }
  key.above = entry;
  co_return outcome;
}

// After a restart in the middle of a key its newer versions are unknown: this version waits for the next pass, so more
// are kept than required. If a version in between is gone, the next newer one is the successor, as in the commit.
Task<LifecyclePass::Outcome> LifecyclePass::judge_noncurrent(const Ground& ground, const store::VersionEntry& entry,
                                                             Key& key) {
  const LifecycleRule* const rule = key.above ? noncurrent_due(ground, entry, key) : nullptr;
  Outcome outcome = Outcome::stayed;
  if (rule != nullptr) {
    auto grounds = ground.as(store::RemovalGrounds::Of::noncurrent);
    grounds.successor_id = name_of(key.above->info);
    grounds.successor_us = key.above->info.modified_us;
    grounds.noncurrent_newer_min = rule->noncurrent_keep;
    outcome = co_await remove(ground, entry, std::move(grounds));
  }
  if (outcome == Outcome::removed) co_return outcome;
  ++key.noncurrent_seen;
  key.above = entry;
  co_return outcome;
}

Task<LifecyclePass::Outcome> LifecyclePass::end_key(const Ground& ground, Key& key) {
  if (!key.lone_marker || !marker_due(ground, *key.lone_marker)) co_return Outcome::stayed;
  const store::VersionEntry marker = std::move(*key.lone_marker);
  key.lone_marker.reset();
  co_return co_await remove(ground, marker, ground.as(store::RemovalGrounds::Of::lone_marker));
}

bool LifecyclePass::marker_due(const Ground& ground, const store::VersionEntry& entry) const {
  const auto by_marker = [&](const LifecycleRule& rule) {
    return rule.enabled && rule.expired_marker && rule.applies(entry.key, entry.info);
  };
  if (std::ranges::any_of(*ground.rules, by_marker)) return true;
  const auto expiry = find_expiry(*ground.rules, entry.key, entry.info, options_.day_s);
  return expiry && expiry->at_us <= clock_.now_us();
}

const LifecycleRule* LifecyclePass::noncurrent_due(const Ground& ground, const store::VersionEntry& entry,
                                                   const Key& key) const {
  for (const LifecycleRule& rule : *ground.rules) {
    if (!rule.enabled || !rule.noncurrent_days || !rule.applies(entry.key, entry.info)) continue;
    if (key.noncurrent_seen < rule.noncurrent_keep) continue;
    const int64_t at_us = due_us(key.above->info.modified_us, *rule.noncurrent_days, options_.day_s);
    if (at_us <= clock_.now_us()) return &rule;
  }
  return nullptr;
}

Task<LifecyclePass::Outcome> LifecyclePass::remove(const Ground& ground, const store::VersionEntry& entry,
                                                   store::RemovalGrounds grounds) {
  const store::ObjectInfo& info = entry.info;
  grounds.tags = info.tags;
  store::RemoveRequest request;
  if (grounds.of != store::RemovalGrounds::Of::current) request.version_id = name_of(info);
  request.conditions.if_modified_us = info.modified_us;
  request.conditions.if_size = info.size;
  if (grounds.of == store::RemovalGrounds::Of::current) request.conditions.if_match = info.etag;
  request.grounds = std::make_shared<const store::RemovalGrounds>(std::move(grounds));
  if (service_ != nullptr) {
    const Call no_caller;
    auto told = co_await announce_now(*service_, ground.bucket, no_caller, EventCause::expire, entry.key);
    if (!told) {
      log::warn("lifecycle: {}: {}", ground.bucket, describe(told.error()));
      co_return Outcome::stayed;
    }
    request.conditions.announcement = std::move(*told);
    if (ends()) co_return Outcome::stayed;  // announcing may have taken a while
  }
  const auto removed = co_await store_.remove(ground.bucket, entry.key, std::move(request));
  if (removed) {
    removals().add();
    co_return Outcome::removed;
  }
  if (removed.error() == Errc::access_denied || removed.error() == Errc::slow_down) {
    refusals().add();
    co_return Outcome::stayed;
  }
  if (removed.error() == Errc::precondition_failed || removed.error() == Errc::no_such_bucket) {
    refusals().add();
    co_return Outcome::refused;
  }
  if (store::is_damage(removed.error())) {
    tell_damaged("lifecycle", ground.bucket, entry.key);
    co_return Outcome::stayed;
  }
  log::warn("lifecycle: {}/{}: {}", ground.bucket, log::printable(entry.key), describe(removed.error()));
  co_return Outcome::stayed;
}

Task<Result<void>> LifecyclePass::uploads(Ground& ground) {
  store::ListUploadsRequest request;
  request.max_uploads = options_.page_size;
  request.passes_damage = true;
  while (!ends()) {
    VB_CO_ASSIGN(const bool has_rules, co_await look_again(ground));
    if (!has_rules) break;
    VB_CO_ASSIGN(const store::UploadPage listed, co_await store_.list_uploads(ground.bucket, request));
    VB_CO_ASSIGN(const bool goes_on, co_await page(ground, listed));
    if (!goes_on || !listed.truncated) break;
    request.key_marker = listed.next_key_marker;
    request.upload_id_marker = listed.next_upload_id_marker;
    co_await rest();
  }
  co_return Result<void>();
}

Task<Result<bool>> LifecyclePass::page(Ground& ground, const store::UploadPage& page) {
  tell_damaged("lifecycle", ground.bucket, page.damaged);
  for (const auto& upload : page.uploads) {
    if (ends()) co_return true;
    const auto due = [&](const LifecycleRule& rule) {
      return rule.enabled && rule.abort_days && upload.key.starts_with(rule.filter.prefix) &&
             due_us(upload.created_us, *rule.abort_days, options_.day_s) <= clock_.now_us();
    };
    if (std::ranges::none_of(*ground.rules, due)) continue;
    auto grounds = std::make_shared<const store::RemovalGrounds>(ground.as(store::RemovalGrounds::Of::upload));
    const auto aborted = co_await store_.abort_upload(ground.bucket, upload.key, upload.upload_id, std::move(grounds));
    if (aborted) aborts().add();
    if (aborted || !(aborted.error() == Errc::precondition_failed)) continue;
    refusals().add();
    VB_CO_ASSIGN(const bool goes_on, co_await look_again(ground));
    if (!goes_on) co_return false;
  }
  co_return true;
}

Task<> LifecyclePass::rest() {
  asio::steady_timer timer(co_await asio::this_coro::executor, options_.pause);
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

LifecycleWorker::LifecycleWorker(Service& service, LifecycleOptions options) : service_(service), options_(options) {}

void LifecycleWorker::start() {
  register_damaged_keys();
  asio::co_spawn(io_, loop(), asio::detached);
  thread_ = std::thread([this] { io_.run(); });
}

void LifecycleWorker::stop() {
  if (!thread_.joinable()) return;
  stop_ = true;
  asio::post(io_, [this] { timer_.cancel(); });
  thread_.join();
}

Task<> LifecycleWorker::loop() {
  const auto between = std::chrono::seconds(std::clamp<int64_t>(options_.day_s / 24, 1, 3600));
  while (!stop_) {
    timer_.expires_after(between);
    // Checked again: stop() may have come before the timer was set.
    if (!stop_) co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
    if (stop_) break;
    LifecyclePass pass(service_.store, service_.clock, options_, stop_, &service_);
    co_await pass.run();
  }
}

}  // namespace verbena::s3
