// Events waiting for targets that are no longer configured. They are counted before the first change, like those of
// other targets, so that their queues stay bounded and visible to operators; and they can be dropped.
#pragma once

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
#include "s3/events/event_queues.h"
#include "store/store.h"

namespace verbena::events {

class GoneTargets {
 public:
  struct Options {
    // For a store that servers share: whether this server is the leader, which alone delivers and removes.
    std::function<bool()> on_duty{};
    std::chrono::milliseconds look_every{10'000};  // there: the interval of reading what other servers left or removed
  };
  GoneTargets(store::Store& store, s3::EventQueues& queues, Options options);
  ~GoneTargets() { stop(); }
  GoneTargets(const GoneTargets&) = delete;

  // Counts the store's waiting events. Blocks.
  Result<void> load();
  void start();
  void begin_stop();  // does not wait
  void stop();

  struct Dropped {
    uint64_t events = 0, bytes = 0;
    uint64_t left = 0;  // not dropped for lack of time
  };
  // Drops the events waiting for `target`, until the deadline. not_found: none are waiting, or the target is
  // configured; would_block: another call is dropping them; unsupported: another server delivers. On any loop.
  Task<Result<Dropped>> drop(std::string target, std::string who, Deadline until);

 private:
  struct Turn;
  void loop();
  Task<Result<void>> drop_of(std::string target, uint64_t bucket, Deadline until, Dropped& dropped);

  store::Store& store_;
  s3::EventQueues& queues_;
  const Options options_;
  boost::asio::io_context io_{1};
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;               // guarded by mutex_
  std::set<std::string> dropping_;  // likewise
  std::thread thread_;
};

}  // namespace verbena::events
