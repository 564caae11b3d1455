// Time. Deadlines use the steady clock; what users see (Last-Modified, SigV4 skew) comes from a WallClock,
// which tests replace.
#pragma once

#include <chrono>
#include <cstdint>

namespace verbena {

using SteadyClock = std::chrono::steady_clock;
using Deadline = SteadyClock::time_point;

inline Deadline deadline_in(std::chrono::nanoseconds d) { return SteadyClock::now() + d; }

class WallClock {
 public:
  virtual ~WallClock() = default;
  // Microseconds since the Unix epoch, UTC.
  virtual int64_t now_us() const;
  int64_t now_s() const { return now_us() / 1'000'000; }
};

// The machine's clock. Lives for the whole program.
const WallClock& system_clock();

// The steady clock in the same form, for limits of rates, which a machine whose clock is set must keep. Its zero is any
// moment.
const WallClock& unset_clock();

}  // namespace verbena
