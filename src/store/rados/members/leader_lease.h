// Leader lease: the work that is done once in the cluster (lifecycle rules, delivery of events, sweeps) is done by the
// server whose sign the row "duty" of the servers' object has. The leader renews its sign every 2 s. A server that has
// seen the same sign for 15 s puts its own there, by a call that compares the sign that it saw.
//
// The holder believes it for less time than the others wait, by a clock of its own that goes on while it is frozen. So
// a server that asks before each act does at most the one act that it had asked for: a removal that is guarded by what
// was judged, the removal of bytes that no row names, one message of an event. What it has read as the leader is worth
// something for as long as the number of its term is the same: between two terms another server may have held it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <string>

#include "base/clock.h"
#include "base/lease_clock.h"
#include "store/rados/cluster/cluster.h"

namespace verbena::store::rados {

class LeaderLease {
 public:
  static constexpr std::chrono::seconds renew_every{2};
  static constexpr std::chrono::seconds lease{8};         // from the beginning of a call that renewed it
  static constexpr std::chrono::seconds silence_max{15};  // of the holder; then another one takes it

  LeaderLease(Cluster& cluster, boost::asio::io_context& io, uint64_t incarnation)
      : cluster_(cluster), incarnation_(incarnation), timer_(io) {}

  // To be asked before each act. Thread-safe.
  bool holds() const { return LeaseClock::now().time_since_epoch().count() < until_.load(); }
  // Likewise: which time of this process it is, 0: it does not hold it. In this order: the number grows before a new
  // term begins.
  uint64_t term() const { return holds() ? terms_.load() : 0; }

  Task<> run();  // until stop(), which hands it back
  void stop();

 private:
  Task<Result<void>> pass();
  // Puts a new sign there if the one that is there is `seen`. False: it is not.
  Task<Result<bool>> sign(std::string seen);

  Cluster& cluster_;
  const uint64_t incarnation_;
  boost::asio::steady_timer timer_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> until_{0};  // lease clock
  std::atomic<uint64_t> terms_{0};
  // Of the task alone.
  std::string own_;   // the sign of this process, if it was the last that is known
  std::string seen_;  // another one's
  SteadyClock::time_point seen_since_{};
};

}  // namespace verbena::store::rados
