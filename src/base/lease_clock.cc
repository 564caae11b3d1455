#include "base/lease_clock.h"

#include <atomic>
#include <cstdint>
#include <ctime>

#include "base/clock.h"

namespace verbena {
namespace {

constexpr std::chrono::milliseconds reading_max{10};
std::atomic<int64_t> pretended_ns{0};

}  // namespace

LeaseClock::time_point LeaseClock::now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  const auto since_start = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  return time_point(since_start + duration(pretended_ns.load(std::memory_order_relaxed)));
}

LeaseClock::duration LeaseClock::suspended() noexcept {
  for (;;) {
    const auto before = SteadyClock::now();
    const auto between = now();
    // A thread that was not running in between would see a suspension otherwise.
    if (SteadyClock::now() - before < reading_max) return between.time_since_epoch() - before.time_since_epoch();
  }
}

void LeaseClock::pretend_suspension(duration time) noexcept { pretended_ns += time.count(); }

}  // namespace verbena
