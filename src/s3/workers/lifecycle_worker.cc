#include "s3/workers/lifecycle_worker.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"
#include "s3/buckets/lifecycle.h"
#include "s3/events/announce.h"

namespace verbena::s3 {
namespace {

namespace asio = boost::asio;

// How far a pass came: the key and version marker of the page to go on with.
constexpr std::string_view progress_document = "lifecycle-progress";
constexpr int progress_pages = 16;  // written this often

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

// The longest prefix that all enabled rules share: only keys under it have to be listed.
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

// "key NUL version id": a key may hold any byte but a version id is text.
std::string encode_progress(const store::ListVersionsRequest& at) {
  return at.version_id_marker + std::string(1, '\0') + at.key_marker;
}
void decode_progress(std::string_view text, store::ListVersionsRequest& at) {
  const size_t end = text.find('\0');
  if (end == std::string_view::npos) return;
  at.version_id_marker = text.substr(0, end);
  at.key_marker = text.substr(end + 1);
}

}  // namespace

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
  VB_CO_ASSIGN(const auto rules, co_await lifecycle_rules(store_, name));
  const auto enabled = [](const LifecycleRule& rule) { return rule.enabled; };
  if (std::ranges::none_of(*rules, enabled)) co_return Result<void>();
  VB_CO_TRY(co_await versions(name, *rules));
  co_return co_await uploads(name, *rules);
}

Task<Result<void>> LifecyclePass::versions(const std::string& bucket, const Rules& rules) {
  store::ListVersionsRequest request;
  request.prefix = common_prefix(rules);
  request.max_keys = options_.page_size;
  const auto stored = co_await store_.document(bucket, progress_document);
  if (stored) decode_progress(**stored, request);
  Key key;
  for (int pages = 1; !ends(); ++pages) {
    VB_CO_ASSIGN(const store::VersionPage page, co_await store_.list_versions(bucket, request));
    for (const auto& entry : page.versions) {
      if (ends()) co_return Result<void>();
      co_await judge(bucket, rules, entry, key);
    }
    if (!page.truncated) {
      co_await end_key(bucket, rules, key);
      if (stored || pages > progress_pages) co_return co_await store_.remove_document(bucket, progress_document);
      co_return Result<void>();
    }
    request.key_marker = page.next_key_marker;
    request.version_id_marker = page.next_version_id_marker;
    if (pages % progress_pages == 0) {
      VB_CO_TRY(co_await store_.set_document(bucket, progress_document, encode_progress(request)));
    }
    co_await rest();
  }
  co_return Result<void>();
}

Task<> LifecyclePass::judge(const std::string& bucket, const Rules& rules, const store::VersionEntry& entry, Key& key) {
  if (entry.key != key.name) {
    co_await end_key(bucket, rules, key);
    key = {};
    key.name = entry.key;
  } else {
    key.lone_marker.reset();
  }
  if (entry.latest && entry.info.delete_marker) {
    key.lone_marker = entry;
  } else if (entry.latest) {
    const auto expiry = find_expiry(rules, entry.key, entry.info, options_.day_s);
    if (expiry && expiry->at_us <= clock_.now_us()) co_await remove(bucket, entry.key, entry.info, false);
  } else {
    // After a restart in the middle of a key its newer versions were not seen: this one then waits for the next pass,
    // and more are kept than must be.
    if (key.successor_us != 0 && noncurrent_due(rules, entry, key)) {
      co_await remove(bucket, entry.key, entry.info, true);
    }
    ++key.noncurrent_seen;
  }
  key.successor_us = entry.info.modified_us;
}

Task<> LifecyclePass::end_key(const std::string& bucket, const Rules& rules, Key& key) {
  if (!key.lone_marker || !marker_due(rules, *key.lone_marker)) co_return;
  const store::VersionEntry marker = std::move(*key.lone_marker);
  key.lone_marker.reset();
  co_await remove(bucket, marker.key, marker.info, true);
}

bool LifecyclePass::marker_due(const Rules& rules, const store::VersionEntry& entry) const {
  const auto by_marker = [&](const LifecycleRule& rule) {
    return rule.enabled && rule.expired_marker && rule.applies(entry.key, entry.info);
  };
  if (std::ranges::any_of(rules, by_marker)) return true;
  const auto expiry = find_expiry(rules, entry.key, entry.info, options_.day_s);
  return expiry && expiry->at_us <= clock_.now_us();
}

bool LifecyclePass::noncurrent_due(const Rules& rules, const store::VersionEntry& entry, const Key& key) const {
  for (const LifecycleRule& rule : rules) {
    if (!rule.enabled || !rule.noncurrent_days || !rule.applies(entry.key, entry.info)) continue;
    if (key.noncurrent_seen < rule.noncurrent_keep) continue;
    if (due_us(key.successor_us, *rule.noncurrent_days, options_.day_s) <= clock_.now_us()) return true;
  }
  return false;
}

Task<> LifecyclePass::remove(const std::string& bucket, const std::string& key, const store::ObjectInfo& info,
                             bool by_version) {
  store::RemoveRequest request;
  if (by_version) request.version_id = info.version_id.empty() ? "null" : info.version_id;
  request.conditions.if_modified_us = info.modified_us;
  request.conditions.if_size = info.size;
  if (service_ != nullptr) {
    const Caller nobody;
    auto told = co_await announce_now(*service_, bucket, nobody, EventCause::expire, key);
    if (!told) co_return log::warn("lifecycle: {}: {}", bucket, describe(told.error()));
    request.conditions.announcement = std::move(*told);
  }
  const auto removed = co_await store_.remove(bucket, key, std::move(request));
  if (removed) {
    removals().add();
  } else if (removed.error() == Errc::precondition_failed || removed.error() == Errc::access_denied ||
             removed.error() == Errc::slow_down) {
    refusals().add();
  } else {
    log::warn("lifecycle: {}/{}: {}", bucket, log::printable(key), describe(removed.error()));
  }
}

Task<Result<void>> LifecyclePass::uploads(const std::string& bucket, const Rules& rules) {
  store::ListUploadsRequest request;
  request.max_uploads = options_.page_size;
  while (!ends()) {
    VB_CO_ASSIGN(const store::UploadPage page, co_await store_.list_uploads(bucket, request));
    for (const auto& upload : page.uploads) {
      if (ends()) co_return Result<void>();
      const auto due = [&](const LifecycleRule& rule) {
        return rule.enabled && rule.abort_days && upload.key.starts_with(rule.filter.prefix) &&
               due_us(upload.created_us, *rule.abort_days, options_.day_s) <= clock_.now_us();
      };
      if (std::ranges::none_of(rules, due)) continue;
      if (co_await store_.abort_upload(bucket, upload.key, upload.upload_id)) aborts().add();
    }
    if (!page.truncated) break;
    request.key_marker = page.next_key_marker;
    request.upload_id_marker = page.next_upload_id_marker;
    co_await rest();
  }
  co_return Result<void>();
}

Task<> LifecyclePass::rest() {
  asio::steady_timer timer(co_await asio::this_coro::executor, options_.pause);
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

LifecycleWorker::LifecycleWorker(Service& service, LifecycleOptions options) : service_(service), options_(options) {}

void LifecycleWorker::start() {
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
