// Counts of a piece of code: allocations, system calls, bytes copied. Linking counters.cc replaces malloc and memcpy of
// the whole program, libraries included.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::bench {

// Smaller copies are not counted: every program makes them; a request's payload is larger.
inline constexpr uint64_t copy_size_min = 1024;  // bytes

struct Counts {
  uint64_t allocations = 0;
  uint64_t allocated_bytes = 0;
  uint64_t copies = 0;  // of copy_size_min bytes and more
  uint64_t copied_bytes = 0;
};

// Counts for the calling thread, between the two calls. Other threads are not counted.
void begin_counting();
Counts end_counting();

// Runs `body` (with `argument`) in a child whose first thread is traced, and counts that thread's system calls by
// number between begin_counting() and end_counting(). False when the machine forbids tracing.
using SystemCalls = std::array<uint64_t, 512>;
bool count_system_calls(int (*body)(void*), void* argument, SystemCalls& calls);
// "epoll_wait", or the number.
const char* system_call_name(std::size_t number);

}  // namespace verbena::bench
