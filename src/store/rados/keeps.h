// Keys that a server answers for from memory, without asking the cluster: each has a mark in its guard that says who
// keeps it (layout.h, Guard). Whoever changes the key sees the mark, tells the keeper, and only then makes the change,
// which is guarded by the very marks that were seen.
//
// A keeper is one term of a server: a number that nobody had before, a row that says that it is one, and an object that
// it watches, where it is told. It reads its row all the time, and believes for less time than others wait that it is
// one. Who gets no answer from a keeper writes into its row that it is none, waits, and removes the row: a keeper
// without a row answers nothing any more. README.md has the argument.
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
#include "store/rados/registry.h"
#include "store/shared_keys.h"

namespace verbena::store::rados {

class Keeps final : public librados::WatchCtx2, public std::enable_shared_from_this<Keeps> {
 public:
  static constexpr std::chrono::seconds look_every{1};         // at the own row
  static constexpr std::chrono::seconds lease{5};              // from the beginning of a look that found it
  static constexpr std::chrono::seconds others_wait{6};        // from when they know that no look finds it any more
  static constexpr std::chrono::seconds answer_max{2};         // of a keeper that is told
  static constexpr std::chrono::seconds left_looks_every{30};  // for rows that nobody has any more
  static constexpr std::chrono::seconds tellings_every{5};     // of how many objects it keeps

  // `on_duty`: this server looks for rows that others left. `rest`: how long a key that others change is not kept.
  Keeps(Registry& registry, boost::asio::io_context& io, std::function<bool()> on_duty, std::chrono::milliseconds rest)
      : registry_(registry), io_(io), on_duty_(std::move(on_duty)), rest_(rest), timer_(io) {}

  // Being a keeper, until stop(). Without it nothing is kept, and others' keepers are told all the same.
  Task<> run();
  void stop();

  // The keeper that this server is, if it knows that it still is at this time; 0: it does not.
  uint64_t term(LeaseClock::time_point now) const {
    // In this order: who sees the next term sees it with a lease that is younger than the one that he looked at.
    const bool valid = now.time_since_epoch().count() < until_.load(std::memory_order_acquire);
    return valid ? term_.load(std::memory_order_acquire) : 0;
  }
  // Whether others have left the key alone for a while.
  bool may_keep(uint64_t bucket, std::string_view key) const;
  void listen(SharedKeys::Listener* listener);
  void let_go_of_bucket(std::string_view name);

  // Before a change of the key whose guard was seen like that: returns when nobody else answers for the key as it is
  // now. From then on nobody begins to without changing the guard.
  Task<Result<void>> tell(uint64_t bucket, std::string key, std::string guard);
  // Waits until that keeper, which does not answer, is none.
  Task<Result<void>> end(uint64_t keeper);
  bool is_over(uint64_t keeper) const;  // known to be none any more
  // Ends keepers of servers that have gone, by and by: before a change has to wait for them.
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
  Task<Result<bool>> has_watcher(uint64_t keeper);
  Task<Result<void>> tell_one(uint64_t keeper, std::string message);
  Task<Result<void>> tell_all(std::vector<uint64_t> keepers, std::string message);
  Task<Result<void>> remove(uint64_t keeper, std::string state);
  Task<Result<bool>> try_end(uint64_t keeper);  // false: not yet
  Deadline broken_since(uint64_t keeper);
  bool waits_for(uint64_t keeper) const;
  void note_over(uint64_t keeper);
  static constexpr size_t rests = 4096;
  static size_t rest_of(uint64_t bucket, std::string_view key);

  Registry& registry_;
  boost::asio::io_context& io_;
  const std::function<bool()> on_duty_;
  const std::chrono::milliseconds rest_;
  boost::asio::steady_timer timer_;
  std::atomic<bool> stopping_{false}, deaf_{false};
  std::atomic<uint64_t> term_{0};                         // of which a look has found the row
  std::atomic<int64_t> until_{0};                         // lease clock
  std::atomic<uint64_t> keeper_{0};                       // whose object is watched
  std::array<std::atomic<int64_t>, rests> rest_until_{};  // steady clock; by a hash of the key

  std::mutex listener_mutex_;
  SharedKeys::Listener* listener_ = nullptr;  // guarded by listener_mutex_

  mutable std::mutex mutex_;  // of these
  std::map<uint64_t, Deadline> broken_since_;
  std::set<uint64_t> over_;

  // Of the thread of `io`.
  uint64_t watch_ = 0;
  Deadline next_left_look_{}, next_telling_{};
  std::string told_kept_;
  std::set<uint64_t> unwatched_;
};

}  // namespace verbena::store::rados
