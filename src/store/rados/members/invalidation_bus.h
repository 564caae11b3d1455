// Invalidation bus between the servers of a cluster (watch and notify): a notice before a bucket or one of its
// documents changes, and one after.
//
// Every server watches the root object. A server that changes a bucket notifies the object before the change, and goes
// on when each watcher has recorded the intent (intents.h) or its watch has ended; and after it, and acknowledges the
// change when each has reloaded the bucket. A server whose watch was not confirmed lately answers nothing from memory:
// its lease is shorter than the time after which the cluster ends a silent watch.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "base/clock.h"
#include "base/lease_clock.h"
#include "store/rados/cluster/cluster.h"
#include "store/rados/members/intents.h"

namespace verbena::store::rados {

class InvalidationBus final : public librados::WatchCtx2, public std::enable_shared_from_this<InvalidationBus> {
 public:
  static constexpr std::chrono::seconds watch_max{15};  // of silence; the cluster then ends the watch
  static constexpr std::chrono::seconds lease{9};       // from the last confirmation of the watch
  static constexpr std::chrono::seconds tell_max{40};   // until an unresponsive watcher has been removed
  static constexpr std::chrono::seconds again_every{5};
  static constexpr int again_times = 12;                   // by then failed OSDs are back or replaced
  static constexpr uint64_t everything = 0;                // as a bucket: all buckets and the accounts
  static constexpr uint64_t accounts = UINT64_MAX;         // as a bucket: the accounts
  static constexpr uint64_t master_keys = UINT64_MAX - 1;  // as a bucket, which older servers do not find

  struct Subscriber {
    // Handles a notice; its sender waits for that. After an error nothing may be answered from memory, with two
    // exceptions: limit_exceeded (the sender must not go on) and slow_down of `over` (the notice is sent again).
    std::function<Task<Result<void>>(Notice)> hear;
    std::function<std::string()> intents;                          // the answer to `asking`
    std::function<bool(const std::vector<Intent>&)> take_intents;  // the others' intents; false: there are too many
    std::function<void(bool)> doubt_all;                           // true while others' intents are unknown
    std::function<void()> look;                                    // called about every half second
  };
  InvalidationBus(Cluster& cluster, boost::asio::io_context& io, Subscriber subscriber);

  Task<> run();  // maintains the watch until stop()
  void stop();
  // Returns when every server has handled the notice. service_unavailable: one did not answer and its watch did not end
  // either.
  Task<Result<void>> tell(Notice notice);
  Task<Result<void>> tell(uint64_t bucket) { return tell(Notice{.bucket = bucket}); }
  // For a change of unknown outcome, which may still be made: repeats the notice so many times, the first at once.
  // Thread-safe.
  void tell_again(uint64_t bucket, int times = again_times);
  // Tells every server to read everything again, until that has succeeded once. Thread-safe.
  void tell_all_to_reload();
  // Whether state in memory may be served.
  bool fresh() const { return fresh(LeaseClock::now()); }
  bool fresh(LeaseClock::time_point now) const { return now.time_since_epoch().count() < fresh_until_.load(); }

  // Called on threads of librados.
  void handle_notify(uint64_t id, uint64_t cookie, uint64_t notifier, librados::bufferlist& message) override;
  void handle_error(uint64_t cookie, int code) override;

 private:
  Task<Result<void>> begin();
  Task<> end();
  Task<> answer(uint64_t id, uint64_t cookie, Notice notice);
  // Requests the others' intents. False: one has not answered.
  Task<bool> ask();
  Task<> ask_again();
  bool take(Buffer& reply);
  Task<> tell_unsure(uint64_t bucket);
  Task<> tell_reload();

  Cluster& cluster_;
  boost::asio::io_context& io_;
  const Subscriber subscriber_;
  boost::asio::steady_timer timer_;
  std::atomic<int64_t> fresh_until_{0};  // lease clock
  std::atomic<bool> stopping_{false}, lost_{false};
  void look_at_watch();
  void look_at_unsure();
  void look_who_did_not_say();

  // Used on the thread of `io` only.
  std::map<uint64_t, int> unsure_;                  // number of notices still to send
  uint64_t reloads_wanted_ = 0, reloads_told_ = 0;  // by tell_all_to_reload()
  bool telling_reload_ = false;
  SteadyClock::time_point next_again_{}, next_ask_{};
  bool all_said_ = true, asking_ = false;
  uint64_t watches_ = 0;  // watches begun so far
  // Used by run() only.
  uint64_t watch_ = 0;
  LeaseClock::duration suspended_{};  // from before the watch was begun
};

}  // namespace verbena::store::rados
