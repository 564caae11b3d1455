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
#include <map>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "base/several.h"
#include "s3/access_generation.h"
#include "s3/events/announce.h"
#include "s3/workers/damaged_keys.h"
#include "store/ends.h"
#include "store/logic/damage.h"
#include "store/removal_grounds.h"

namespace verbena::s3 {
namespace {

constexpr size_t looks_max = 8;       // of one bucket, before the next bucket's turn
constexpr size_t victims_max = 512;   // of one bucket, before the next bucket's turn
constexpr size_t renewals_max = 512;  // likewise
constexpr size_t together = 16;       // evicted by one commit, which other commits wait for
constexpr size_t at_once = 4;         // of those; they share syncs
constexpr size_t renewed_at_once = 32;
constexpr size_t withdrawn_at_once = 16'384;  // objects of withdrawn orders, in a pass
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
metrics::Counter& evicted_early() {
  static auto& counter =
      metrics::counter("verbena_evicted_early_total",
                       "Objects evicted from bounded buckets that were within their bounds, because the memory of "
                       "their orders was used up (bounds_memory)");
  return counter;
}

}  // namespace

// Victims, or keys to renew, that the coroutines of a batch share. Used on one executor.
struct BoundsWorker::Batch {
  BoundPtr bound{};
  std::shared_ptr<const store::RemovalGrounds> grounds{};
  std::vector<EvictionOrder::Object> victims{};
  std::vector<std::string> keys{};
  size_t next = 0, evicted = 0, refused = 0, failures = 0;
  bool early = false;  // Bound::Victims
  std::string first_failure{};
};

BoundsWorker::BoundsWorker(Service& service, store::ChangeFeeds& feeds) : service_(service), feeds_(feeds) {
  service_.bounds->on_filling([this] { wake(); });
}

void BoundsWorker::start() {
  evicted_objects();  // told from the start on
  evicted_bytes();
  evicted_early();
  register_damaged_keys();
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
    timer_.expires_at(next_pass_);
    // Checked again: a wake may have come before the timer was set.
    if (!stop_ && !woken_) (void)co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    woken_ = false;
    if (!stop_) co_await pass();
  }
}

Task<> BoundsWorker::pass() {
  next_pass_ = Clock::now() + bounds_pause;
  const auto bounds = service_.bounds->all();
  std::erase_if(turns_, [&](const auto& one) { return std::ranges::find(bounds, one.first) == bounds.end(); });
  for (const BoundPtr& bound : bounds) {
    if (stop_) co_return;
    co_await serve(bound, turns_[bound]);
  }
  co_await load_some();
  forget_some();
}

void BoundsWorker::forget_some() {
  for (const BoundPtr& bound : service_.bounds->take_withdrawn()) withdrawn_.push_back(bound->take_order());
  if (withdrawn_.empty()) return;
  if (!withdrawn_.front().forget(withdrawn_at_once)) withdrawn_.pop_front();
  wake();  // the rest, after all buckets' evictions
}

Task<> BoundsWorker::serve(BoundPtr bound, Turn& turn) {
  if (turn.paused_until > Clock::now()) {
    next_pass_ = std::min(next_pass_, turn.paused_until);
  } else {
    co_await evict_from(bound, turn);
  }
  co_await renew(bound);
}

// The looks of one turn end with the first that finds something.
Task<> BoundsWorker::evict_from(BoundPtr bound, Turn& turn) {
  const bool refused = turn.pause != Clock::duration::zero();
  Bound::Victims victims;
  for (size_t looks = 0; looks < looks_max; ++looks) {
    victims = bound->victims(refused ? together : victims_max);
    if (!victims.objects.empty() || !victims.more) break;
  }
  const bool more = victims.more;
  bool evicted = true;
  if (!victims.objects.empty()) evicted = co_await evict(bound, std::move(victims));
  if (evicted) {
    turn.pause = Clock::duration::zero();
    if (more) wake();  // the rest, after the other buckets
    co_return;
  }
  // Until then no wake brings its turn: the other buckets' evictions would wait for its refusals.
  turn.pause = refused ? std::min<Clock::duration>(2 * turn.pause, refused_pause_max) : refused_pause;
  turn.paused_until = Clock::now() + turn.pause;
  next_pass_ = std::min(next_pass_, turn.paused_until);
}

// One slice of one load: that of the owner who waits longest for one. An owner's buckets are loaded one after the
// other.
Task<> BoundsWorker::load_some() {
  std::map<std::string, uint64_t> last_of_owner;
  std::pair<const BoundPtr, Turn>* next = nullptr;
  const auto now = Clock::now();
  for (auto& one : turns_) {
    const auto& [bound, turn] = one;
    auto& last = last_of_owner[bound->owner()];
    last = std::max(last, turn.loaded_at);
  }
  const auto is_before = [&](const auto& a, const auto& b) {
    const bool a_began = a.second.load != nullptr, b_began = b.second.load != nullptr;
    return std::make_pair(last_of_owner[a.first->owner()], !a_began) <
           std::make_pair(last_of_owner[b.first->owner()], !b_began);
  };
  for (auto& one : turns_) {
    const auto& [bound, turn] = one;
    if ((turn.load == nullptr && bound->is_loaded()) || turn.not_loaded_before > now) continue;
    if (next == nullptr || is_before(one, *next)) next = &one;
  }
  if (next == nullptr) co_return;
  co_await load(next->first, next->second);
}

Task<> BoundsWorker::load(BoundPtr bound, Turn& turn) {
  if (turn.load == nullptr) turn.load = std::make_unique<BoundLoad>(bound, service_.store);
  turn.loaded_at = ++loads_;
  const auto more = co_await turn.load->go_on(feeds_);
  Bound::Victims victims{.objects = turn.load->take_crowded_out(), .decided_by = bound->document(), .early = true};
  if (!victims.objects.empty()) (void)co_await evict(bound, std::move(victims));
  if (!more) {
    log::warn("bounds: {}: {}", bound->bucket(), describe(more.error()));
    turn.not_loaded_before = Clock::now() + bounds_pause;
  }
  if (!more || !*more) turn.load.reset();
  wake();  // the next slice, after all buckets' evictions
}

Task<bool> BoundsWorker::evict(BoundPtr bound, Bound::Victims victims) {
  const auto batch = std::make_shared<Batch>();
  batch->bound = std::move(bound);
  batch->grounds = std::make_shared<const store::RemovalGrounds>(
      store::RemovalGrounds{.bucket_created_us = batch->bound->created_us(),
                            .rules = std::move(victims.decided_by),
                            .of = store::RemovalGrounds::Of::evicted});
  batch->victims = std::move(victims.objects);
  batch->early = victims.early;
  const auto work = [this, batch] { return evict_some(batch); };
  co_await run_several(std::min(at_once, batch->victims.size() / together + 1), work);
  if (batch->failures != 0) {
    log::warn("bounds: {}: {} objects could not be evicted, at first {}", batch->bound->bucket(), batch->failures,
              batch->first_failure);
  }
  const bool all_refused = batch->evicted == 0 && batch->refused != 0;
  if (all_refused) co_await look_again(batch->bound);
  co_return !all_refused;
}

// A request that read it before a change may have brought back what it was.
Task<> BoundsWorker::look_again(BoundPtr bound) {
  constexpr std::array names{bound_document};
  const uint64_t generation = service_.access->now(bound->bucket());
  const auto found = co_await service_.store.bucket_and_documents(bound->bucket(), names);
  if (!found) {
    if (found.error() == Errc::no_such_bucket) bound->withdraw();
    co_return;
  }
  const store::BucketInfo& info = found->bucket;
  const auto now =
      service_.bounds->of(bound->bucket(), info.created_us, info.owner, found->documents.front(), generation);
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
    co_await settle(*batch, victims, outcomes);
  }
}

Task<> BoundsWorker::settle(Batch& batch, std::span<const EvictionOrder::Object> victims,
                            const std::vector<Result<void>>& done) {
  uint64_t objects = 0, bytes = 0;
  for (size_t i = 0; i < victims.size(); ++i) {
    const EvictionOrder::Object& victim = victims[i];
    if (done[i]) {
      ++objects;
      bytes += victim.size;
      continue;
    }
    const Error& why = done[i].error();
    const bool damaged = store::is_damage(why);
    if (damaged) tell_damaged("bounds", batch.bound->bucket(), victim.key);
    const bool gone = damaged || why == Errc::no_such_key;
    const bool corrected = why == Errc::precondition_failed && co_await correct(*batch.bound, victim);
    ++(gone || corrected ? batch.evicted : batch.refused);
    if (gone) continue;
    if (why == Errc::precondition_failed || why == Errc::no_such_bucket || batch.failures++ != 0) continue;
    batch.first_failure = fmt::format("{}: {}", log::printable(victim.key), describe(why));
  }
  batch.bound->settle(victims, done);
  batch.evicted += objects;
  evicted_objects().add(objects);
  evicted_bytes().add(bytes);
  if (batch.early) evicted_early().add(objects);
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
  evictions.reserve(victims.size());
  for (const auto& victim : victims) evictions.push_back({.key = victim.key, .modified_us = victim.time_us});
  if (service_.events != nullptr) {
    const auto access = co_await bucket_access(service_, bucket);
    // Whatever it is, damage too, it is not of the victims.
    const auto refused = fail(Errc::service_unavailable, "bounds: the bucket's documents cannot be read");
    if (!access) co_return std::vector<Result<void>>(victims.size(), refused);
    const Call no_caller;
    for (auto& one : evictions) {
      one.announcement = announce(service_, **access, no_caller, EventCause::expire, one.key);
    }
  }
  co_return co_await service_.store.evict(bucket, batch.grounds, std::move(evictions));
}

Task<> BoundsWorker::renew(BoundPtr bound) {
  const auto batch = std::make_shared<Batch>();
  batch->keys = bound->take_due_keys(renewals_max);
  if (batch->keys.size() == renewals_max) wake();
  batch->bound = std::move(bound);
  const auto work = [this, batch] { return renew_some(batch); };
  co_await run_several(std::min(renewed_at_once, batch->keys.size()), work);
}

Task<> BoundsWorker::renew_some(std::shared_ptr<Batch> batch) {
  while (batch->next < batch->keys.size() && !stop_) {
    const std::string key = std::move(batch->keys[batch->next++]);
    store::ObjectChange change;
    change.attributes.emplace_back(store::touch_attribute, store::touch_by_read);
    (void)co_await service_.store.update(batch->bound->bucket(), key, "", std::move(change));
  }
}

}  // namespace verbena::s3
