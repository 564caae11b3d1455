// Spinning that lets others have the processor.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace verbena {

// Spinning yields, since the process that we wait for may need this core. If threads with work of their own want it
// too, a yield costs whole time slices (seen: 20 ms a request under a compiler's load), while a sleeping thread is
// woken at once. So a yield that returns late suspends spinning, each time for longer. Of one thread at a time.
class PoliteSpin {
 public:
  // False: sleep instead.
  bool allowed(Deadline now) const { return now >= again_at_; }
  void yield(Deadline now) {
    sched_yield();
    const auto back = SteadyClock::now();
    if (back - now > late) {
      pause_ = std::clamp<std::chrono::nanoseconds>(pause_ * 2, pause_min, pause_max);
      again_at_ = back + pause_;
    } else if (back - again_at_ > pause_) {
      pause_ = std::chrono::nanoseconds(0);
    }
  }

 private:
  static constexpr std::chrono::milliseconds late{1}, pause_min{20}, pause_max{1000};
  std::chrono::nanoseconds pause_{0};
  Deadline again_at_{};
};

}  // namespace verbena
