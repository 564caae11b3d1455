// Ends a world that hangs: a thread that never gives its turn on, or a world whose time goes on without end.
#pragma once

#include <cstdint>

namespace verbena::simulator {

// When the process has worked for so many seconds, or has neither worked nor changed turns for a minute, it prints the
// seed, what each thread waits for and where the one is whose turn it is, and exits with `hung`. On a busy machine a
// world may take as long as it takes.
inline constexpr int hung = 4;
void begin_watchdog(uint64_t seed, unsigned seconds);

}  // namespace verbena::simulator
