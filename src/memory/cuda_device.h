// One device and its thread. Private to this room.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <span>

#include "base/metrics.h"
#include "memory/aside.h"
#include "memory/cuda_context.h"
#include "memory/cuda_devices.h"

namespace verbena::memory::cuda {

struct DirectMetrics {
  metrics::Counter& written;
  metrics::Counter& read;
  metrics::Counter& copies;
  metrics::Counter& failed;
  metrics::Counter& losses;
  metrics::Gauge& mapped;
  metrics::Gauge& lost;
  static DirectMetrics& get();

 private:
  DirectMetrics();
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  Device(const Driver& driver, MutableBytes arena, int number, std::chrono::milliseconds limit)
      : driver_(driver), arena_(arena), number_(number), limit_(limit) {}
  // Prepares it, page-locks the arena for all devices of its driver if it is told to, and starts the thread, which
  // keeps this object: one that is stuck in the driver goes on after stop().
  Outcome<> start(bool locks_arena);
  void stop();
  bool wait_for_end(Deadline until);

  bool is(Platform platform, const DeviceName& name) const { return driver_.platform() == platform && uuid_ == name; }
  bool lost() const { return lost_.load(std::memory_order_relaxed); }

  // `open` runs on its thread: one of the two open().
  using Open = std::function<Outcome<std::shared_ptr<Mapped>>()>;
  void map(Open open, Devices::WhenMapped mapped);
  Outcome<std::shared_ptr<Mapped>> open(const Exported& allocation);
  Outcome<std::shared_ptr<Mapped>> open(const Pieces& pieces);
  // As Mapped has them.
  void unmap(uint64_t address, std::span<const uint64_t> pieces, std::shared_ptr<const void> held);
  void copy(uint64_t device_address, Copy copy, std::shared_ptr<const void> mapped);
  void after_all(std::function<void()> then);

 private:
  struct Work {
    std::function<void()> run;
    std::function<void()> refuse = {};  // instead, if the device is lost; empty: it waits until the device works again
  };
  struct Flight {
    uint64_t device_address = 0;
    Copy copy;
    std::shared_ptr<const void> mapped = {};
    Deadline until{};
    bool told = false;  // that it is lost
    std::unique_ptr<Aside> aside = {};
  };
  using FlightPtr = std::shared_ptr<Flight>;
  // Copies behind which an event was recorded.
  struct Batch {
    void* event = nullptr;
    std::vector<FlightPtr> flights;
  };
  static constexpr unsigned directions = 2;  // to the device, and from it: engines of their own
  static constexpr size_t flights_max = 512;

  void run();
  void watch();
  bool is_late();
  bool wait_for_work();
  void do_work();
  void issue();
  void record(unsigned direction, std::vector<FlightPtr> flights);
  void collect();
  void end(const std::vector<FlightPtr>& flights, CopyEnd how);
  void add(Work work);
  Outcome<> prepare();
  void leave();
  void lose(const std::string& why, bool for_good);
  void tell_all();
  Outcome<> open(const Pieces::Piece& piece, uint64_t at);
  void close(uint64_t at, std::span<const uint64_t> pieces);
  void free_addresses(uint64_t address, uint64_t size);
  void complain(const Outcome<>& done) const;
  std::string name() const;  // "cuda:0"
  // Notes the time of a call for the watch.
  template <class Fn>
  Outcome<> call(const char* name, Fn&& fn) {
    called_ = SteadyClock::now();
    auto done = in_context(driver_, context_, name, std::forward<Fn>(fn));
    called_ = Deadline{};
    return done;
  }

  const Driver& driver_;
  const MutableBytes arena_;
  const int number_;
  const std::chrono::milliseconds limit_;
  DeviceName uuid_{};
  std::atomic<bool> lost_{false};
  std::atomic<Deadline> called_{Deadline{}};  // when the call in progress began; none: 0
  std::atomic<Deadline> looked_{Deadline{}};  // it has asked which copies had ended by then

  // Of the device's thread:
  void* context_ = nullptr;
  void* streams_[directions] = {};
  std::vector<void*> events_;              // not in use
  std::deque<Batch> batches_[directions];  // in order
  bool locked_ = false;
  unsigned looks_ = 0;  // at copies in flight, since something happened

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_, end_changed_;
  std::deque<Work> work_;
  std::deque<FlightPtr> queued_;  // copies that the driver does not have yet
  std::list<FlightPtr> flying_;   // that it has, or is being given
  bool stopping_ = false, ended_ = false;
  bool broken_ = false;  // the driver says that the device does not work; set by its thread
};

}  // namespace verbena::memory::cuda
