// Read leases: rights of a server to serve a key from memory, without asking the cluster. A lease is stored in the
// key's version token (layout.h, ReadLease). A server that changes the key sees the lease, recalls it from its holder,
// and then makes the change, which compares the leases that it saw.
//
// A lease holder is one epoch of a server: a number that was never used before, a row that marks the holder as live,
// and an object that the holder watches, through which leases are recalled. The holder reads its row every second and
// trusts it for less time than others wait. A server that gets no answer from a holder marks its row as broken, waits,
// and removes the row: a holder without a row serves nothing from memory. README.md has the proof.
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
  static constexpr std::chrono::seconds look_every{1};   // interval of reading the own row
  static constexpr std::chrono::seconds lease{5};        // validity from the start of a read that found the row live
  static constexpr std::chrono::seconds others_wait{6};  // wait from when no read can find the row live
  static constexpr std::chrono::seconds answer_max{2};   // time for a lease holder's answer
  static constexpr std::chrono::seconds left_looks_every{30};  // interval of looking for rows of servers that are gone
  static constexpr std::chrono::seconds tellings_every{5};     // interval of reporting the number of leases

  // `is_leader`: this server looks for rows left by others. `rest`: time without a lease on a key after others changed
  // it.
  ReadLeases(Registry& registry, boost::asio::io_context& io, std::function<bool()> is_leader,
             std::chrono::milliseconds rest)
      : registry_(registry), io_(io), is_leader_(std::move(is_leader)), rest_(rest), timer_(io) {}

  // Makes this server a lease holder until stop(). Without it no lease is taken, but those of others are still
  // recalled.
  Task<> run();
  void stop();

  // This server's holder number, if it is certainly still valid; else 0.
  uint64_t term(LeaseClock::time_point now) const {
    // Read in this order, so that a reader of the next epoch has a newer lease than the one it looked at.
    const bool valid = now.time_since_epoch().count() < until_.load(std::memory_order_acquire);
    return valid ? term_.load(std::memory_order_acquire) : 0;
  }
  // Whether no other server has changed the key recently.
  bool may_keep(uint64_t bucket, std::string_view key) const;
  void listen(SharedKeys::Listener* listener);
  void let_go_of_bucket(std::string_view name);

  // Call before a change of the key with this version token: returns when no other server serves the key's current
  // state from memory. After that no server begins to without changing the version token.
  Task<Result<void>> tell(uint64_t bucket, std::string key, std::string version_token);
  // Waits until that lease holder, which does not answer, has ended.
  Task<Result<void>> end(uint64_t holder);
  bool is_over(uint64_t holder) const;  // certainly ended
  // Ends lease holders of servers that are gone, before a change has to wait for them.
  Task<Result<void>> look_for_left();

  // Called on threads of librados.
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
  Task<> give_up();  // drops leases that others have ended
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
  std::atomic<uint64_t> term_{0};                         // set when its row was found live
  std::atomic<int64_t> until_{0};                         // lease clock
  std::atomic<uint64_t> holder_{0};                       // the holder whose object is watched
  std::array<std::atomic<int64_t>, rests> rest_until_{};  // steady clock; by a hash of the key

  std::mutex listener_mutex_;
  SharedKeys::Listener* listener_ = nullptr;  // guarded by listener_mutex_

  mutable std::mutex mutex_;  // guards the following members
  std::map<uint64_t, Deadline> broken_since_;
  std::set<uint64_t> over_;

  // Used on the thread of `io` only.
  uint64_t watch_ = 0;
  Deadline next_left_look_{}, next_telling_{};
  std::string told_count_;
  std::set<uint64_t> unwatched_;
};

}  // namespace verbena::store::rados
