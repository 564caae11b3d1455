// Ends a world that hangs: a thread that never gives its turn on, or a world whose time goes on without end.
#pragma once

#include <cstdint>

namespace verbena::simulator {

// After so many seconds of the machine's clock the process prints the seed, what each thread waits for and where the
// one is whose turn it is, and exits with `hung`.
inline constexpr int hung = 4;
void begin_watchdog(uint64_t seed, unsigned seconds);

}  // namespace verbena::simulator
