// A core: one pinned thread with its own event loop. Everything that belongs to a core runs on its thread alone, so
// most of the code takes no locks. Work for another core is posted to it.
#pragma once

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace verbena {

// A source of work that makes progress only when polled (a fabric endpoint, a shared-memory ring).
class Pollable {
 public:
  virtual ~Pollable() = default;
  // Makes progress without blocking. Returns the number of events (0: none).
  virtual size_t poll() = 0;
  // True while operations are in flight whose completion only poll() can bring: the loop then does not sleep for long.
  virtual bool busy() const = 0;
  // Prepares for a sleep of the loop: a wake-up must come through the io_context (wait objects, eventfd flags). False
  // when there is work already, or when this cannot be woken: then the loop polls on.
  virtual bool arm() = 0;
  // Called when the loop has woken up.
  virtual void disarm() = 0;
  // Whether progress says that a client will soon have more: then the loop polls on for a while before it sleeps. The
  // end of a transfer to or from a disk says no such thing.
  virtual bool brings_messages() const { return true; }
};

class Core {
 public:
  struct Options {
    unsigned index = 0;
    int pin_to_cpu = -1;                     // -1: do not pin
    std::chrono::microseconds spin_for{50};  // how long to poll after the last progress of a pollable
  };
  explicit Core(Options options);
  ~Core();
  Core(const Core&) = delete;

  unsigned index() const { return options_.index; }
  boost::asio::io_context& io() { return io_; }

  // On this core's thread (or before run()). A pollable is removed before it is destroyed; either may be called
  // from inside a poll.
  void add(Pollable* pollable);
  void remove(Pollable* pollable);

  // What a pollable or a socket brings at this moment came after this: the loop looked for it then. The present, if the
  // loop is not run, or sleeps: of a sleep that took more than 150 ms (the thread was held) its beginning.
  // On this core's thread.
  Deadline arrived_after() const;

  // Runs until stop(). Called from the thread that becomes this core's.
  void run();
  void stop();  // from any thread

 private:
  size_t poll_all();
  size_t poll_eagerly();
  bool arm_all();

  Options options_;
  boost::asio::io_context io_;
  std::vector<Pollable*> pollables_;
  uint64_t messages_ = 0;  // progress of pollables that bring messages, so far
  bool armed_ = false;     // all pollables, for a sleep
  unsigned vain_ = 0;      // consecutive eager polls without progress
  // The beginnings of the pass before this one, and of this one. Default: run() has not begun.
  Deadline looked_{}, looks_{};
  bool asleep_ = false;  // since looks_
  std::atomic<bool> stopping_{false};
};

}  // namespace verbena
