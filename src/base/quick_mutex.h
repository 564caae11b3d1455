// A mutex for critical sections of some tens of nanoseconds, such as one table look-up: one atomic exchange to lock and
// one to unlock, both inline, where std::mutex makes two calls that cost as much as the section. A thread that finds it
// locked sleeps in the kernel. No recursion, no fairness. (Drepper, "Futexes Are Tricky", the second mutex.)
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena {

// For std::lock_guard and std::unique_lock.
class QuickMutex {
 public:
  void lock() {
    uint32_t expected = free;
    if (!state_.compare_exchange_strong(expected, taken, std::memory_order_acquire, std::memory_order_relaxed)) {
      lock_behind_others();
    }
  }
  bool try_lock() {
    uint32_t expected = free;
    return state_.compare_exchange_strong(expected, taken, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() {
    if (state_.exchange(free, std::memory_order_release) == wanted) state_.notify_one();
  }

 private:
  static constexpr uint32_t free = 0, taken = 1, wanted = 2;  // wanted: taken, with a sleeping waiter

  void lock_behind_others() {
    while (state_.exchange(wanted, std::memory_order_acquire) != free) state_.wait(wanted, std::memory_order_relaxed);
  }

  std::atomic<uint32_t> state_{free};
};

}  // namespace verbena
