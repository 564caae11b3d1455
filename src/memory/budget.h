// The budget of the arena per peer. Memory for a transfer is charged before it is leased, so that slow peers cannot
// take it from the others:
//
//  - A peer (a client's address; of IPv6 its /64) holds at most `peer_max`, all transfers together at most `total_max`.
//    The rest of the arena is for memory of no peer, and for the gaps between leases.
//  - The less is left, the smaller the pieces: a transfer's next chunk is at most 1/64 of what is left to all and 1/32
//    of what is left to its peer, between `unit` and `chunk_max`. So a few slow transfers never hold everything, and
//    hundreds fit.
//  - A request that does not fit waits. Peers take turns, requests of one peer go in order; each waiter gets one unit.
//    The wait is bounded in time and the waiters in number; past either the result is slow_down (503).
//  - Requests of at most one unit have a part of their own first, so that they need no account and no lock.
//
// Thread-safe. A waiter is resumed on its own executor.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/metrics.h"
#include "base/task.h"
#include "memory/charge.h"

namespace verbena::memory {

class Arena;
class Lease;

class Budget {
 public:
  static constexpr size_t unit = 64 * KiB;      // bytes; the smallest chunk of a transfer
  static constexpr size_t chunk_max = 1 * MiB;  // bytes; the largest

  struct Limits {
    size_t total_max = 0;  // bytes of all transfers
    size_t peer_max = 0;   // of one peer
    size_t small_max = 0;  // of requests of at most one unit, beside those
    size_t waiters_max = 4096;
    size_t peer_waiters_max = 1024;  // of one peer, so that it cannot keep others from waiting
    std::chrono::milliseconds wait_max{15'000};
    // Limits for `free_bytes` of an arena: 5/8 for transfers, 1/8 for small requests. `peer_max` 0: half of the
    // transfers' part.
    static Limits of(size_t free_bytes, size_t peer_max = 0);
  };
  explicit Budget(const Limits& limits);
  ~Budget();  // requires that every charge is returned and no caller waits
  Budget(const Budget&) = delete;

  void set_limits(const Limits& limits) { limits_ = limits; }  // before the first charge
  const Limits& limits() const { return limits_; }

  size_t charged_bytes() const { return total_.load() + small_.load(); }
  size_t waiters() const { return waiters_.load(); }

 private:
  friend class Charge;
  friend class Share;
  using Peer = Charge::Peer;
  struct Waiter;
  using WaiterPtr = std::shared_ptr<Waiter>;

  std::shared_ptr<Peer> peer(std::string_view address);
  // For a request that needs at most one unit in all. nullopt: use the transfer functions.
  std::optional<Charge> try_small(size_t bytes);
  size_t offer(const Peer& peer) const;
  std::optional<Charge> try_take(const std::shared_ptr<Peer>& peer, size_t bytes);
  Task<Result<Charge>> wait(std::shared_ptr<Peer> peer, size_t bytes);

  bool reserve(Peer& peer, size_t bytes);
  void give_back(Peer* peer, size_t bytes);
  bool enqueue(const WaiterPtr& waiter);
  void leave(const WaiterPtr& waiter);
  void serve();
  std::vector<WaiterPtr> serve_locked();
  static void wake(const std::vector<WaiterPtr>& served);

  Limits limits_;
  std::atomic<size_t> total_{0};
  std::atomic<size_t> small_{0};
  std::atomic<size_t> waiters_{0};
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<Peer>> peers_;  // all below: guarded by mutex_
  std::deque<Peer*> ring_;                                      // peers with waiters, in order of their turns
  bool starved_ = false;  // the first in the ring waits for total_, not for its peer

  metrics::Gauge& waiting_gauge_;
  metrics::Counter& waits_;
  metrics::Counter& refused_full_;
  metrics::Counter& refused_late_;
};

// One transfer's use of the budget. Used on one core.
class Share {
 public:
  // `peer`: the client's address; both outlive it. `size`: of the whole transfer, if known.
  Share(Arena& arena, std::string_view peer, std::optional<uint64_t> size);

  // The current size of the next chunk: unit .. chunk_max bytes.
  size_t offer();
  // Whether little is left: hold only memory that is about to move.
  bool scarce() { return offer() <= Budget::unit; }

  // Charges as many of `wanted` bytes (1 .. chunk_max) as are offered now, rounded up to a lease's size. nullopt: wait.
  std::optional<Charge> try_take(size_t wanted);
  // Waits for at least min(wanted, unit). slow_down: too many wait, or it took too long.
  Task<Result<Charge>> take(size_t wanted);
  // All of `bytes` (no more than a peer may have), at once or after a wait: for heap memory made in one go, of which a
  // part is useless. The caller never holds one part while it waits for another.
  Task<Result<Charge>> take_whole(size_t bytes);
  // take_whole() without a wait. nullopt: it does not fit now.
  std::optional<Charge> try_whole(size_t bytes);
  // take(), and a lease of as much of `wanted` as was charged. Tries again while the free parts of the arena are all
  // too small.
  Task<Result<Lease>> lease(size_t wanted);

 private:
  const std::shared_ptr<Charge::Peer>& account();

  Arena& arena_;
  Budget& budget_;
  std::string_view address_;
  bool small_;                             // the whole transfer needs at most one unit
  std::shared_ptr<Charge::Peer> account_;  // made at first use
};

}  // namespace verbena::memory
