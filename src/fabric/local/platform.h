// Atomics, fences and copies of the machine. What two processes agree on by them is written as templates over this
// (ring.h, agreements.h), so that weak_memory_test.cc can run the same code under a model of weak memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>

namespace verbena::fabric::local {

struct NativePlatform {
  template <class T>
  using Atomic = std::atomic<T>;
  static void full_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
  // Of memory that the other side also uses.
  static void write(std::byte* to, const std::byte* from, size_t size) { std::memcpy(to, from, size); }
  static void read(std::byte* to, const std::byte* from, size_t size) { std::memcpy(to, from, size); }
};

}  // namespace verbena::fabric::local
