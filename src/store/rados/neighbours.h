// The other servers of the cluster: told when a bucket or one of its documents is about to change and when it has, and
// told by them.
//
// Every server watches the root object. Who changes something notifies it before, and goes on when each watcher has
// marked the bucket (marks.h), or its watch has ended; and after, and answers when each has read the bucket anew. A
// server that cannot be sure that its watch stands answers nothing from what it keeps: its lease is shorter than the
// time after which the cluster ends a silent watch.
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
#include "store/rados/marks.h"

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

  struct Ears {
    // Does what a notice says; others wait for it. After an error nothing may be answered from memory, but for
    // limit_exceeded: then whoever told it is not to go on; and slow_down of what is over: it is told again.
    std::function<Task<Result<void>>(Notice)> hear;
    std::function<std::string()> marks;                        // for who asks
    std::function<bool(const std::vector<Mark>&)> take_marks;  // of others; false: there are too many
    std::function<void(bool)> mark_all;                        // as long as others' marks are not known
    std::function<void()> look;                                // about every half second
  };
  Neighbours(Cluster& cluster, boost::asio::io_context& io, Ears ears);

  Task<> run();  // keeps the watch until stop()
  void stop();
  // Returns when every server has heard. service_unavailable: one did not answer and its watch did not end either.
  Task<Result<void>> tell(Notice notice);
  Task<Result<void>> tell(uint64_t bucket) { return tell(Notice{.bucket = bucket}); }
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
  Task<> answer(uint64_t id, uint64_t cookie, Notice notice);
  // Which marks others have; false: not everybody has said.
  Task<bool> ask();
  Task<> ask_again();
  bool take(Buffer& reply);
  Task<> tell_unsure(uint64_t bucket);

  Cluster& cluster_;
  boost::asio::io_context& io_;
  const Ears ears_;
  boost::asio::steady_timer timer_;
  std::atomic<int64_t> fresh_until_{0};  // lease clock
  std::atomic<bool> stopping_{false}, lost_{false};
  void look_at_watch();
  void look_at_unsure();
  void look_who_did_not_say();

  // On the thread of `io` alone.
  std::map<uint64_t, int> unsure_;  // how many times they are to be told yet
  SteadyClock::time_point next_again_{}, next_ask_{};
  bool all_said_ = true, asking_ = false;
  uint64_t watches_ = 0;  // that were begun
  // Of run() alone.
  uint64_t watch_ = 0;
  LeaseClock::duration suspended_{};  // as it was before the watch was begun
};

}  // namespace verbena::store::rados
