// The clock of leases.
#pragma once

#include <chrono>

namespace verbena {

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

}  // namespace verbena
