#include "s3/workers/bounds_worker.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "base/several.h"
#include "s3/events/announce.h"
#include "store/ends.h"
#include "store/removal_grounds.h"

namespace verbena::s3 {
namespace {

constexpr size_t victims_max = 512;   // of one bucket, before the next bucket's turn
constexpr size_t renewals_max = 512;  // likewise
constexpr size_t together = 16;       // evicted by one commit, which other commits wait for
constexpr size_t at_once = 4;         // of those; they share syncs
constexpr size_t renewed_at_once = 32;
constexpr std::chrono::seconds bounds_pause{1};
constexpr std::chrono::milliseconds refused_pause{10}, refused_pause_max{500};  // while all evictions are refused

metrics::Counter& evicted_objects() {
  static auto& counter = metrics::counter("verbena_evicted_objects_total", "Objects evicted from bounded buckets");
  return counter;
}
metrics::Counter& evicted_bytes() {
  static auto& counter =
      metrics::counter("verbena_evicted_bytes_total", "Bytes of objects evicted from bounded buckets");
  return counter;
}

// When the end of its life was put off last; 0: never. An end is of whole seconds, so a renewal within the first second
// is not seen.
int64_t renewed_us_of(const store::ObjectInfo& info) {
  const int64_t end_us = store::end_us_of(info), began_us = end_us - store::ttl_s_of(info) * 1'000'000;
  return end_us != 0 && began_us >= info.modified_us + 1'000'000 ? began_us : 0;
}

}  // namespace

// Victims, or keys to renew, that the coroutines of a batch share. Used on one executor.
struct BoundsWorker::Batch {
  BoundPtr bound{};
  std::shared_ptr<const store::RemovalGrounds> grounds{};
  std::vector<EvictionOrder::Object> victims{};
  std::vector<std::string> keys{};
  size_t next = 0, evicted = 0, refused = 0, failures = 0;
  std::string first_failure{};
};

BoundsWorker::BoundsWorker(Service& service, store::ChangeFeeds& feeds) : service_(service), feeds_(feeds) {
  service_.bounds->on_filling([this] { wake(); });
}

void BoundsWorker::start() {
  evicted_objects();  // told from the start on
  evicted_bytes();
  register_bound_metrics();
  boost::asio::co_spawn(io_, loop(), boost::asio::detached);
  thread_ = std::thread([this] { io_.run(); });
}

void BoundsWorker::stop() {
  if (!thread_.joinable()) return;
  stop_ = true;
  boost::asio::post(io_, [this] { timer_.cancel(); });
  thread_.join();
}

void BoundsWorker::wake() {
  if (woken_.exchange(true)) return;
  boost::asio::post(io_, [this] { timer_.cancel(); });
}

Task<> BoundsWorker::loop() {
  std::chrono::milliseconds refused = refused_pause;
  while (!stop_) {
    timer_.expires_after(bounds_pause);
    // Checked again: a wake may have come before the timer was set.
    if (!stop_ && !woken_) (void)co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    woken_ = false;
    if (stop_) break;
    if (co_await pass()) {
      refused = refused_pause;
      continue;
    }
    woken_ = true;  // no wake ends this pause
    timer_.expires_after(refused);
    if (!stop_) (void)co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    refused = std::min(2 * refused, refused_pause_max);
  }
}

Task<bool> BoundsWorker::pass() {
  evicted_ = refused_ = 0;
  for (const BoundPtr& bound : service_.bounds->all()) {
    if (stop_) break;
    co_await serve(bound);
  }
  co_return evicted_ != 0 || refused_ == 0;
}

Task<> BoundsWorker::serve(BoundPtr bound) {
  if (!bound->is_loaded()) {
    if (const auto loaded = co_await load(bound); !loaded) {
      log::warn("bounds: {}: {}", bound->bucket(), describe(loaded.error()));
      co_return;
    }
  }
  store::Document decided_by;
  if (auto victims = bound->victims(victims_max, &decided_by); !victims.empty()) {
    const bool more = victims.size() == victims_max;
    const size_t before = evicted_;
    co_await evict(bound, std::move(victims), std::move(decided_by));
    if (more && evicted_ != before) wake();  // the rest, after the other buckets
  }
  co_await renew(bound);
}

// Listens first: what is written during the listing is told.
Task<Result<void>> BoundsWorker::load(BoundPtr bound) {
  VB_CO_ASSIGN(const store::BucketFeedPtr feed, feeds_.feed(bound->bucket()));
  if (!feed->is_of(bound->created_us(), bound->owner())) co_return fail(Errc::no_such_bucket, "bounds");
  feed->stop_listening(*bound);
  bound->begin_load();
  if (!feed->listen(bound)) co_return fail(Errc::no_such_bucket, "bounds");
  std::vector<EvictionOrder::Object> listed;
  store::ListRequest request;
  for (bool more = bound->settings().is_limited(); more && !stop_;) {
    VB_CO_ASSIGN(store::ListPage page, co_await service_.store.list(bound->bucket(), request));
    for (auto& entry : page.entries) {
      const store::ObjectInfo& info = entry.info;
      listed.push_back({.key = std::move(entry.key),
                        .size = info.size,
                        .time_us = info.modified_us,
                        .end_us = store::end_us_of(info),
                        .renewed_us = renewed_us_of(info)});
    }
    more = page.truncated;
    request.after = std::move(page.next_after);
  }
  if (!stop_) bound->end_load(std::move(listed));
  co_return Result<void>();
}

Task<> BoundsWorker::evict(BoundPtr bound, std::vector<EvictionOrder::Object> victims, store::Document decided_by) {
  const auto batch = std::make_shared<Batch>();
  batch->bound = std::move(bound);
  batch->grounds = std::make_shared<const store::RemovalGrounds>(
      store::RemovalGrounds{.bucket_created_us = batch->bound->created_us(),
                            .rules = std::move(decided_by),
                            .of = store::RemovalGrounds::Of::evicted});
  batch->victims = std::move(victims);
  const auto work = [this, batch] { return evict_some(batch); };
  co_await run_several(std::min(at_once, batch->victims.size() / together + 1), work);
  evicted_ += batch->evicted;
  refused_ += batch->refused;
  if (batch->failures != 0) {
    log::warn("bounds: {}: {} objects could not be evicted, at first {}", batch->bound->bucket(), batch->failures,
              batch->first_failure);
  }
  if (batch->evicted == 0 && batch->refused != 0) co_await look_again(batch->bound);
}

// A request that read it before a change may have brought back what it was.
Task<> BoundsWorker::look_again(BoundPtr bound) {
  constexpr std::array names{bound_document};
  const auto found = co_await service_.store.bucket_and_documents(bound->bucket(), names);
  if (!found) {
    if (found.error() == Errc::no_such_bucket) bound->withdraw();
    co_return;
  }
  const store::BucketInfo& info = found->bucket;
  const auto now = service_.bounds->of(bound->bucket(), info.created_us, info.owner, found->documents.front());
  if (!now) log::warn("bounds: {}: {}", bound->bucket(), describe(now.error()));
}

Task<> BoundsWorker::evict_some(std::shared_ptr<Batch> batch) {
  Bound& bound = *batch->bound;
  while (batch->next < batch->victims.size()) {
    const size_t first = batch->next;
    const auto victims = std::span(batch->victims).subspan(first, std::min(together, batch->victims.size() - first));
    batch->next += victims.size();
    std::vector<Result<void>> outcomes(victims.size(), fail(Errc::no_such_bucket, "bounds"));
    if (!bound.is_gone() && !stop_) outcomes = co_await evict_together(*batch, victims);
    for (size_t i = 0; i < victims.size(); ++i) co_await settle(*batch, victims[i], outcomes[i]);
  }
}

Task<> BoundsWorker::settle(Batch& batch, const EvictionOrder::Object& victim, const Result<void>& done) {
  const bool gone = done || done.error() == Errc::no_such_key;
  if (done) {
    evicted_objects().add();
    evicted_bytes().add(victim.size);
  }
  const bool corrected = !gone && done.error() == Errc::precondition_failed && co_await correct(*batch.bound, victim);
  batch.bound->settle(victim, gone);
  ++(gone || corrected ? batch.evicted : batch.refused);
  if (gone || done.error() == Errc::precondition_failed || done.error() == Errc::no_such_bucket) co_return;
  if (batch.failures++ != 0) co_return;
  batch.first_failure = fmt::format("{}: {}", log::printable(victim.key), describe(done.error()));
}

Task<bool> BoundsWorker::correct(Bound& bound, const EvictionOrder::Object& victim) {
  const auto real = co_await service_.store.stat(bound.bucket(), victim.key, "");
  if (!real || real->modified_us == victim.time_us) co_return false;
  bound.correct({victim.key, real->size, real->modified_us, store::end_us_of(*real)});
  co_return true;
}

Task<std::vector<Result<void>>> BoundsWorker::evict_together(const Batch& batch,
                                                             std::span<const EvictionOrder::Object> victims) {
  const std::string& bucket = batch.bound->bucket();
  std::vector<store::Eviction> evictions;
  for (const auto& victim : victims) evictions.push_back({.key = victim.key, .modified_us = victim.time_us});
  if (service_.events != nullptr) {
    const auto access = co_await bucket_access(service_, bucket);
    if (!access) co_return std::vector<Result<void>>(victims.size(), std::unexpected(access.error()));
    const Call no_caller;
    for (auto& one : evictions) {
      one.announcement = announce(service_, **access, no_caller, EventCause::expire, one.key);
    }
  }
  co_return co_await service_.store.evict(bucket, batch.grounds, std::move(evictions));
}

Task<> BoundsWorker::renew(BoundPtr bound) {
  const auto batch = std::make_shared<Batch>();
  batch->keys = bound->take_read_keys(renewals_max);
  if (batch->keys.size() == renewals_max) wake();
  std::ranges::sort(batch->keys);
  batch->keys.erase(std::ranges::unique(batch->keys).begin(), batch->keys.end());
  batch->bound = std::move(bound);
  const auto work = [this, batch] { return renew_some(batch); };
  co_await run_several(std::min(renewed_at_once, batch->keys.size()), work);
}

// An object without a TTL, or one that was renewed a moment ago, costs no commit.
Task<> BoundsWorker::renew_some(std::shared_ptr<Batch> batch) {
  while (batch->next < batch->keys.size() && !stop_) {
    const std::string key = std::move(batch->keys[batch->next++]);
    store::ObjectChange change;
    change.attributes.emplace_back(store::touch_attribute, store::touch_by_read);
    (void)co_await service_.store.update(batch->bound->bucket(), key, "", std::move(change));
  }
}

}  // namespace verbena::s3
