// Memory that an operation of a device may still touch, because the operation did not end in time. Leases of it that
// are given back are kept from use until then, or for good. Thread-safe.
#pragma once

#include <atomic>
#include <functional>

#include "base/bytes.h"

namespace verbena::memory {

class Aside {
 public:
  explicit Aside(Bytes memory);
  ~Aside();  // the operation has ended
  Aside(const Aside&) = delete;

  static void export_metrics();  // at a server's start
  static bool any() { return count_.load(std::memory_order_acquire) != 0; }
  // For the arena. Whether that memory has to wait; `give_back` is called when the last operation on it has ended.
  static bool keeps(Bytes memory, std::function<void()> give_back);
  // The arena ends: what waits in it is never given back. Whether an operation may still touch it: it stays mapped.
  // `waiting` is the number of bytes that wait.
  static bool abandon(Bytes arena, size_t& waiting);

 private:
  static std::atomic<size_t> count_;  // of all
  Bytes memory_;
};

}  // namespace verbena::memory
