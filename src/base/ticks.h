// The cheapest clock, for durations that are only counted: the processor's time stamp counter if its rate is constant,
// else the steady clock. For deadlines use base/clock.h.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace verbena {

struct TickSource {
  bool counter = false;              // the processor's counter; else ticks are nanoseconds
  uint64_t ns_per_65536 = 1u << 16;  // nanoseconds in 65,536 ticks
};

// Measures the counter against the steady clock, at the first call: a millisecond. Ticks from before and after it have
// different units, so code that counts durations calls this first (metrics::histogram() does).
const TickSource& tick_source();

namespace detail {
inline constinit TickSource ticking;
}

inline uint64_t ticks() {
#if defined(__x86_64__)
  if (detail::ticking.counter) return __builtin_ia32_rdtsc();
#endif
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock::now().time_since_epoch()).count());
}

// The time between two ticks() calls, on any cores. Exact to a few parts in 100,000, up to two days.
inline uint64_t ns_between(uint64_t from, uint64_t to) {
  return to <= from ? 0 : ((to - from) * detail::ticking.ns_per_65536) >> 16;
}

}  // namespace verbena
