// Events that wait for targets which the configuration names no more. They are counted before the first change, as
// those of the others are, so that their queues stay bounded and operators see them; and they can be let go of.
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
    // Where servers share a store: whether this is the one that delivers, and so the one that removes.
    std::function<bool()> on_duty{};
    std::chrono::milliseconds look_every{10'000};  // there, at what others left or removed
  };
  GoneTargets(store::Store& store, s3::EventQueues& queues, Options options);
  ~GoneTargets() { stop(); }
  GoneTargets(const GoneTargets&) = delete;

  // Counts what the store has. Blocks.
  Result<void> load();
  void start();
  void begin_stop();  // does not wait
  void stop();

  struct Dropped {
    uint64_t events = 0, bytes = 0;
    uint64_t left = 0;  // there was no time for
  };
  // Lets go of what waits for `target`, for as long as there is time. not_found: nothing does, or it is a target of the
  // configuration; would_block: another call does it already; unsupported: another server delivers. On any loop.
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
