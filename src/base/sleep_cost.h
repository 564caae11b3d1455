// How long a thread that waits for a fabric polls before it sleeps.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>

namespace verbena {

// The time for which the calling thread had a processor.
inline std::chrono::nanoseconds thread_cpu_time() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// Going to sleep and waking up costs a few microseconds of a processor where interrupts and timers are cheap, and a
// hundred times that in some virtual machines. A thread that polls for as long as a sleep costs, and then sleeps,
// spends at most twice what the better of both would have cost (Karlin, Li, Manasse, Owicki, "Empirical studies of
// competitive spinning for a shared-memory multiprocessor", 1991). It is twice that long here, for a message that is
// met awake also comes sooner. Of one thread at a time.
class SleepCost {
 public:
  // The processor time that a sleep took, with what prepared it.
  void add(std::chrono::nanoseconds cost) {
    // Falls at once and rises slowly: what a thread did besides sleeping counts little, unless it does so at each wake.
    usual_ = cost < usual_ || usual_.count() == 0 ? cost : usual_ + (cost - usual_) / 16;
  }
  // `least`: where a sleep costs little.
  std::chrono::nanoseconds poll_for(std::chrono::nanoseconds least) const {
    return std::max(least, std::min(2 * usual_, most));
  }

 private:
  static constexpr std::chrono::nanoseconds most = std::chrono::microseconds(500);
  std::chrono::nanoseconds usual_{0};
};

}  // namespace verbena
