// The other servers of the cluster: told when a bucket or one of its documents has changed, and told by them.
//
// Every server watches the root object. Who has changed something notifies it and answers only when each watcher has
// read the bucket anew, or its watch has ended. A server that cannot be sure that its watch stands answers nothing from
// what it keeps: its lease is shorter than the time after which the cluster ends a silent watch.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "base/clock.h"
#include "base/lease_clock.h"
#include "store/rados/cluster.h"

namespace verbena::store::rados {

class Neighbours final : public librados::WatchCtx2, public std::enable_shared_from_this<Neighbours> {
 public:
  static constexpr std::chrono::seconds watch_max{15};  // of silence; the cluster then ends the watch
  static constexpr std::chrono::seconds lease{9};       // from the last sign that it stands
  static constexpr std::chrono::seconds tell_max{40};   // until a watcher that does not answer is gone
  static constexpr std::chrono::seconds again_every{5};
  static constexpr int again_times = 12;            // by then OSDs that were away are back, or others have their place
  static constexpr uint64_t everything = 0;         // as a bucket: what is known of all of them, and the accounts
  static constexpr uint64_t accounts = UINT64_MAX;  // as a bucket: the accounts

  // Reads anew what is kept of a bucket. Others wait for it.
  using Hear = std::function<Task<Result<void>>(uint64_t bucket)>;
  Neighbours(Cluster& cluster, boost::asio::io_context& io, Hear hear);

  Task<> run();  // keeps the watch until stop()
  void stop();
  // Returns when every server has heard. service_unavailable: one did not answer and its watch did not end either.
  Task<Result<void>> tell(uint64_t bucket);
  // Of a change whose outcome nobody knows: it may be made later. Tells so many times, at once first. Thread-safe.
  void tell_again(uint64_t bucket, int times = again_times);
  // What is kept may be answered from.
  bool fresh() const { return fresh(LeaseClock::now()); }
  bool fresh(LeaseClock::time_point now) const { return now.time_since_epoch().count() < fresh_until_.load(); }

  // On threads of librados.
  void handle_notify(uint64_t id, uint64_t cookie, uint64_t notifier, librados::bufferlist& message) override;
  void handle_error(uint64_t cookie, int code) override;

 private:
  Task<Result<void>> begin();
  Task<> end();
  Task<> answer(uint64_t id, uint64_t cookie, uint64_t bucket);
  Task<> tell_unsure(uint64_t bucket);

  Cluster& cluster_;
  boost::asio::io_context& io_;
  const Hear hear_;
  boost::asio::steady_timer timer_;
  std::atomic<int64_t> fresh_until_{0};  // lease clock
  std::atomic<bool> stopping_{false}, lost_{false};
  void look_at_watch();
  void look_at_unsure();

  // On the thread of `io` alone.
  std::map<uint64_t, int> unsure_;  // how many times they are to be told yet
  SteadyClock::time_point next_again_{};
  // Of run() alone.
  uint64_t watch_ = 0;
  LeaseClock::duration suspended_{};  // as it was before the watch was begun
};

}  // namespace verbena::store::rados
