#include "base/ticks.h"

#include <fstream>
#include <mutex>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace verbena {
namespace {

#if defined(__x86_64__)

// Whether the counter is an "invariant TSC" (Intel SDM 3B, 18.17.1): one rate in all P-, C- and T-states; or the kernel
// has found it reliable, and uses it as its clock.
bool counter_is_steady() {
  std::string source;
  std::ifstream("/sys/devices/system/clocksource/clocksource0/current_clocksource") >> source;
  if (source == "tsc") return true;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0;
}

struct ClockPair {
  uint64_t counter = 0;
  int64_t steady_ns = 0;
};

// Reads both clocks at one moment: of several tries the fastest, since a thread may be interrupted in between.
ClockPair read_both() {
  ClockPair best;
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const uint64_t before = __builtin_ia32_rdtsc();
    const auto steady = SteadyClock::now().time_since_epoch();
    const uint64_t after = __builtin_ia32_rdtsc();
    if (after - before >= least) continue;
    least = after - before;
    best = {before + least / 2, std::chrono::duration_cast<std::chrono::nanoseconds>(steady).count()};
  }
  return best;
}

TickSource measure_ticks() {
  if (!counter_is_steady()) return {};
  constexpr int64_t long_enough_ns = 1'000'000;
  const ClockPair from = read_both();
  ClockPair to = from;
  while (to.steady_ns - from.steady_ns < long_enough_ns) to = read_both();
  const auto ns = static_cast<uint64_t>(to.steady_ns - from.steady_ns);
  const uint64_t counted = to.counter - from.counter;
  // 50 MHz to 50 GHz; anything else is not usable.
  if (counted < ns / 20 || counted > ns * 50) return {};
  return {true, (ns << 16) / counted};
}

#else

TickSource measure_ticks() { return {}; }

#endif

}  // namespace

const TickSource& tick_source() {
  static std::once_flag once;
  std::call_once(once, [] { detail::ticking = measure_ticks(); });
  return detail::ticking;
}

}  // namespace verbena
