// Read leases: keys that a server answers for from memory, without asking the cluster. The key's version token has the
// lease (layout.h, ReadLease). A server that changes the key sees the lease, recalls it from its holder, and only then
// makes the change, which compares the very leases that were seen.
//
// A lease holder is one epoch of a server: a number that was never used before, a row that says that the holder is
// live, and an object that the holder watches, through which leases are recalled. The holder reads its row every second
// and trusts it for a shorter time than the others wait. A server that gets no answer from a holder writes into its row
// that it is broken, waits, and removes the row: a holder without a row answers nothing from memory. README.md has the
// proof.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/lease_clock.h"
#include "store/rados/cluster/attempt.h"
#include "store/rados/rows/registry.h"
#include "store/shared_keys.h"

namespace verbena::store::rados {

class ReadLeases final : public librados::WatchCtx2, public std::enable_shared_from_this<ReadLeases> {
 public:
  static constexpr std::chrono::seconds look_every{1};         // at the own row
  static constexpr std::chrono::seconds lease{5};              // from the beginning of a look that found it
  static constexpr std::chrono::seconds others_wait{6};        // from when they know that no look finds it any more
  static constexpr std::chrono::seconds answer_max{2};         // of a lease holder that is told
  static constexpr std::chrono::seconds left_looks_every{30};  // for rows of servers that are gone
  static constexpr std::chrono::seconds tellings_every{5};     // of how many leases it holds

  // `is_leader`: this server looks for rows that others left. `rest`: how long no lease is taken on a key that others
  // change.
  ReadLeases(Registry& registry, boost::asio::io_context& io, std::function<bool()> is_leader,
             std::chrono::milliseconds rest)
      : registry_(registry), io_(io), is_leader_(std::move(is_leader)), rest_(rest), timer_(io) {}

  // Is a lease holder until stop(). Without it no lease is taken, and those of others are recalled all the same.
  Task<> run();
  void stop();

  // The lease holder that this server is, if it knows that it still is at this time; 0: it does not.
  uint64_t term(LeaseClock::time_point now) const {
    // In this order: a reader that sees the next epoch sees it with a lease that is younger than the one it looked at.
    const bool valid = now.time_since_epoch().count() < until_.load(std::memory_order_acquire);
    return valid ? term_.load(std::memory_order_acquire) : 0;
  }
  // Whether no other server has changed the key for a while.
  bool may_keep(uint64_t bucket, std::string_view key) const;
  void listen(SharedKeys::Listener* listener);
  void let_go_of_bucket(std::string_view name);

  // Before a change of the key whose version token was seen like that: returns when no other server
  // answers for the key as it is now. From then on none begins to without changing the version token.
  Task<Result<void>> tell(uint64_t bucket, std::string key, std::string version_token);
  // Waits until that lease holder, which does not answer, is none.
  Task<Result<void>> end(uint64_t holder);
  bool is_over(uint64_t holder) const;  // known to be none any more
  // Ends lease holders of servers that have gone, by and by: before a change has to wait for them.
  Task<Result<void>> look_for_left();

  // On threads of librados.
  void handle_notify(uint64_t id, uint64_t cookie, uint64_t notifier, librados::bufferlist& message) override;
  void handle_error(uint64_t cookie, int code) override;

 private:
  void let_go(uint64_t bucket, std::string_view key);
  Task<Result<void>> pass();
  Task<Result<void>> begin();
  Task<Result<void>> tell_how_many();
  Task<Result<void>> watch();
  Task<> unwatch();
  Task<> leave();
  Task<> give_up();  // what others have ended
  Task<Result<bool>> has_watcher(uint64_t holder);
  Task<Result<void>> tell_one(uint64_t holder, std::string message);
  Task<Result<void>> tell_all(std::vector<uint64_t> holders, std::string message);
  Task<Result<void>> remove(uint64_t holder, std::string state);
  Task<Result<Attempt>> try_end(uint64_t holder);
  Deadline broken_since(uint64_t holder);
  bool waits_for(uint64_t holder) const;
  void note_over(uint64_t holder);
  static constexpr size_t rests = 4096;
  static size_t rest_of(uint64_t bucket, std::string_view key);

  Registry& registry_;
  boost::asio::io_context& io_;
  const std::function<bool()> is_leader_;
  const std::chrono::milliseconds rest_;
  boost::asio::steady_timer timer_;
  std::atomic<bool> stopping_{false}, deaf_{false};
  std::atomic<uint64_t> term_{0};                         // of which a look has found the row
  std::atomic<int64_t> until_{0};                         // lease clock
  std::atomic<uint64_t> holder_{0};                       // whose object is watched
  std::array<std::atomic<int64_t>, rests> rest_until_{};  // steady clock; by a hash of the key

  std::mutex listener_mutex_;
  SharedKeys::Listener* listener_ = nullptr;  // guarded by listener_mutex_

  mutable std::mutex mutex_;  // of these
  std::map<uint64_t, Deadline> broken_since_;
  std::set<uint64_t> over_;

  // Of the thread of `io`.
  uint64_t watch_ = 0;
  Deadline next_left_look_{}, next_telling_{};
  std::string told_count_;
  std::set<uint64_t> unwatched_;
};

}  // namespace verbena::store::rados
