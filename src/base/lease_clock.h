// The clock of leases.
#pragma once

#include <chrono>

namespace verbena {

// A clock for promises whose expiry other machines rely on. It continues while the machine is suspended, which the
// steady clock does not.
class LeaseClock {
 public:
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<LeaseClock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept;
  // The time that the machine has been suspended since its start, to a hundredth of a second.
  static duration suspended() noexcept;
  // For tests: makes the whole process believe that the machine was just suspended for that long.
  static void pretend_suspension(duration time) noexcept;
};

}  // namespace verbena
