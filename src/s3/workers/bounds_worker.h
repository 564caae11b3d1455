// Evicts from bounded buckets (access/bound.h), in the background, on a thread of its own: as soon as one fills, and it
// is looked at every second besides. An eviction is a removal of a lifecycle rule's kind, with its events; watchers are
// told `evicted`. Its commit checks that the object is still the one that was chosen, and that no lease pins it.
//
// Buckets are served in turns. A turn is a bounded number of looks and evictions, so that no bucket makes another one's
// writes wait for long; a bucket all of whose evictions are refused pauses alone. The slices of loads (bound_load.h)
// are done between them, one at a time.
//
// The order of eviction is kept in memory. After a start it is made from the listing, by the times at which the objects
// were written, or at which their TTL was renewed: other reads of before are forgotten. Writes into the bucket wait
// until then.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "s3/access/bound.h"
#include "s3/service.h"
#include "s3/workers/bound_load.h"
#include "store/change_feed.h"

namespace verbena::s3 {

class BoundsWorker {
 public:
  // The service has `bounds`; all must outlive it.
  BoundsWorker(Service& service, store::ChangeFeeds& feeds);
  ~BoundsWorker() { stop(); }
  void start();
  void stop();  // ends the running pass; waits for it

 private:
  struct Batch;
  Task<> loop();
  Task<> pass();
  using Clock = SteadyClock;
  struct Turn {  // of one bucket
    Clock::time_point paused_until{}, not_loaded_before{};
    Clock::duration pause{};  // zero: the last evictions were not all refused
    std::unique_ptr<BoundLoad> load{};
    uint64_t loaded_at = 0;  // the number of its last slice
  };
  Task<> serve(BoundPtr bound, Turn& turn);
  Task<> evict_from(BoundPtr bound, Turn& turn);
  Task<> load_some();
  Task<> load(BoundPtr bound, Turn& turn);
  // False: all were refused.
  Task<bool> evict(BoundPtr bound, Bound::Victims victims);
  void forget_some();                 // of the orders of buckets that are bounded no more
  Task<> look_again(BoundPtr bound);  // at the document of a bound that evicts nothing
  Task<> evict_some(std::shared_ptr<Batch> batch);
  // The outcome of each (Store::evict()).
  Task<std::vector<Result<void>>> evict_together(const Batch& batch, std::span<const EvictionOrder::Object> victims);
  // `done`: the outcome of each.
  Task<> settle(Batch& batch, std::span<const EvictionOrder::Object> victims, const std::vector<Result<void>>& done);
  // Whether the order had something wrong of it.
  Task<bool> correct(Bound& bound, const EvictionOrder::Object& victim);
  Task<> renew(BoundPtr bound);
  Task<> renew_some(std::shared_ptr<Batch> batch);
  void wake();

  Service& service_;
  store::ChangeFeeds& feeds_;
  std::atomic<bool> stop_{false}, woken_{false};
  boost::asio::io_context io_{1};
  boost::asio::steady_timer timer_{io_};
  std::map<BoundPtr, Turn> turns_;  // of buckets in use
  Clock::time_point next_pass_{};
  uint64_t loads_ = 0;  // slices
  std::deque<EvictionOrder> withdrawn_;
  std::thread thread_;
};

}  // namespace verbena::s3
