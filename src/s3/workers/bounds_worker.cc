#include "s3/workers/bounds_worker.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "s3/events/announce.h"
#include "store/ends.h"
#include "store/removal_grounds.h"

namespace verbena::s3 {
namespace {

constexpr size_t victims_max = 512;       // of one bucket, before the next bucket's turn
constexpr size_t evictions_at_once = 32;  // they share commits
constexpr std::chrono::seconds bounds_pause{1};

metrics::Counter& evicted_objects() {
  static auto& counter = metrics::counter("verbena_evicted_objects_total", "Objects evicted from bounded buckets");
  return counter;
}
metrics::Counter& evicted_bytes() {
  static auto& counter =
      metrics::counter("verbena_evicted_bytes_total", "Bytes of objects evicted from bounded buckets");
  return counter;
}

}  // namespace

// Victims that the coroutines of a batch share. Used on one executor.
struct BoundsWorker::Batch {
  explicit Batch(const boost::asio::any_io_executor& executor) : changed(executor) {}
  BoundPtr bound{};
  std::vector<EvictionOrder::Object> victims{};
  size_t next = 0, busy = 0;
  boost::asio::steady_timer changed;
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
  while (!stop_) {
    timer_.expires_after(bounds_pause);
    // Checked again: a wake may have come before the timer was set.
    if (!stop_ && !woken_) (void)co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    woken_ = false;
    if (!stop_) co_await pass();
  }
}

Task<> BoundsWorker::pass() {
  for (const BoundPtr& bound : service_.bounds->all()) {
    if (stop_) break;
    co_await serve(bound);
  }
}

Task<> BoundsWorker::serve(BoundPtr bound) {
  if (!bound->is_loaded()) {
    if (const auto loaded = co_await load(bound); !loaded) {
      log::warn("bounds: {}: {}", bound->bucket(), describe(loaded.error()));
      co_return;
    }
  }
  if (auto victims = bound->victims(victims_max); !victims.empty()) {
    if (victims.size() == victims_max) wake();  // more, after the other buckets
    co_await evict(bound, std::move(victims));
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
  for (bool more = true; more && !stop_;) {
    VB_CO_ASSIGN(store::ListPage page, co_await service_.store.list(bound->bucket(), request));
    for (auto& entry : page.entries) {
      listed.push_back({std::move(entry.key), entry.info.size, entry.info.modified_us, store::end_us_of(entry.info)});
    }
    more = page.truncated;
    request.after = std::move(page.next_after);
  }
  if (!stop_) bound->end_load(std::move(listed));
  co_return Result<void>();
}

Task<> BoundsWorker::evict(BoundPtr bound, std::vector<EvictionOrder::Object> victims) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const auto batch = std::make_shared<Batch>(executor);
  batch->bound = std::move(bound);
  batch->victims = std::move(victims);
  batch->busy = std::min(evictions_at_once, batch->victims.size());
  for (size_t i = batch->busy; i != 0; --i) {
    boost::asio::co_spawn(executor, evict_some(batch), boost::asio::detached);
  }
  while (batch->busy != 0) {
    batch->changed.expires_at(boost::asio::steady_timer::time_point::max());
    (void)co_await batch->changed.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
}

Task<> BoundsWorker::evict_some(std::shared_ptr<Batch> batch) {
  while (batch->next < batch->victims.size()) {
    const EvictionOrder::Object victim = std::move(batch->victims[batch->next++]);
    const auto done = co_await evict_one(*batch->bound, victim);
    batch->bound->settle(victim, done.has_value());
    if (done || done.error() == Errc::precondition_failed || done.error() == Errc::no_such_bucket) continue;
    log::warn("bounds: {}/{}: {}", batch->bound->bucket(), log::printable(victim.key), describe(done.error()));
  }
  --batch->busy;
  batch->changed.cancel();
}

// precondition_failed: replaced since, or pinned.
Task<Result<void>> BoundsWorker::evict_one(const Bound& bound, const EvictionOrder::Object& victim) {
  store::RemoveRequest request;
  request.grounds = std::make_shared<const store::RemovalGrounds>(store::RemovalGrounds{
      .bucket_created_us = bound.created_us(), .rules = nullptr, .of = store::RemovalGrounds::Of::evicted});
  request.conditions.if_modified_us = victim.time_us;
  const Call no_caller;
  VB_CO_ASSIGN(request.conditions.announcement,
               co_await announce_now(service_, bound.bucket(), no_caller, EventCause::expire, victim.key));
  VB_CO_TRY(co_await service_.store.remove(bound.bucket(), victim.key, std::move(request)));
  evicted_objects().add();
  evicted_bytes().add(victim.size);
  co_return Result<void>();
}

// An object without a TTL, or one that was renewed a moment ago, costs no commit.
Task<> BoundsWorker::renew(BoundPtr bound) {
  auto keys = bound->take_read_keys();
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
  for (const std::string& key : keys) {
    if (stop_) break;
    store::ObjectChange change;
    change.attributes.emplace_back(store::touch_attribute, store::touch_by_read);
    (void)co_await service_.store.update(bound->bucket(), key, "", std::move(change));
  }
}

}  // namespace verbena::s3
