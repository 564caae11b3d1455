// Leader lease: jobs that only one server may do (lifecycle rules, delivery of events, sweeps) are done by the server
// whose sign is in the row "duty" of the servers' object. The leader renews its sign every 2 s. A server that has seen
// the same sign for 15 s replaces it by its own, by a call that compares the sign that it saw.
//
// The holder trusts the lease for less time than the others wait, by its own clock, which continues while it is frozen.
// So a leader that checks before each action does at most one action after losing the lease: a removal that is guarded
// by its preconditions, the removal of bytes that no row names, or one message of an event. State read as the leader is
// valid only while the term number is the same: between two terms another server may have been the leader.
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
  static constexpr std::chrono::seconds lease{8};         // from the start of a call that renewed it
  static constexpr std::chrono::seconds silence_max{15};  // silence of the holder after which another server takes over

  LeaderLease(Cluster& cluster, boost::asio::io_context& io, uint64_t incarnation)
      : cluster_(cluster), incarnation_(incarnation), timer_(io) {}

  // Check before each action. Thread-safe.
  bool holds() const { return cluster_.may_write() && LeaseClock::now().time_since_epoch().count() < until_.load(); }
  // Likewise: this process's term number, 0: not the leader. Read in this order, since the number grows before a new
  // term begins.
  uint64_t term() const { return holds() ? terms_.load() : 0; }

  Task<> run();  // until stop(), which releases the lease
  void stop();

 private:
  Task<Result<void>> pass();
  // Writes a new sign if the current one is `seen`. False: it is not.
  Task<Result<bool>> sign(std::string seen);

  Cluster& cluster_;
  const uint64_t incarnation_;
  boost::asio::steady_timer timer_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> until_{0};  // lease clock
  std::atomic<uint64_t> terms_{0};
  // Used by the task only.
  std::string own_;   // this process's sign, if it was the last known one
  std::string seen_;  // another server's
  SteadyClock::time_point seen_since_{};
};

}  // namespace verbena::store::rados
