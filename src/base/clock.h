// Time. Deadlines use the steady clock, leases the lease clock; what users see (Last-Modified, SigV4 skew) comes from
// a WallClock, which tests replace.
#pragma once

#include <chrono>
#include <cstdint>

namespace verbena {

using SteadyClock = std::chrono::steady_clock;
using Deadline = SteadyClock::time_point;

inline Deadline deadline_in(std::chrono::nanoseconds d) { return SteadyClock::now() + d; }

// For what others believe to be over after a while. It goes on while the machine is suspended, which the steady clock
// does not.
class LeaseClock {
 public:
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<LeaseClock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept;
  // How long the machine has been suspended since it was started, to a hundredth of a second.
  static duration suspended() noexcept;
  // For tests: the whole process finds itself as if the machine had just been suspended for that long.
  static void pretend_suspension(duration time) noexcept;
};

class WallClock {
 public:
  virtual ~WallClock() = default;
  // Microseconds since the Unix epoch, UTC.
  virtual int64_t now_us() const;
  int64_t now_s() const { return now_us() / 1'000'000; }
};

// The machine's clock. Lives for the whole program.
const WallClock& system_clock();

}  // namespace verbena
