// What NVIDIA's driver says of an address, and its contexts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device_driver.h"

namespace verbena::compat {

// The device's context on this thread, while it lives.
class Current {
 public:
  Current(const DeviceDriver& driver, void* context) : driver_(driver), there_(driver.push(context) == 0) {}
  ~Current() {
    void* was = nullptr;
    if (there_) driver_.pop(&was);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  explicit operator bool() const { return there_; }

 private:
  const DeviceDriver& driver_;
  bool there_;
};

// Neighbouring allocations of one device.
struct DeviceSpan {
  int device = -1;
  uint64_t begin = 0, end = 0;
  std::vector<uint64_t> begins;  // of each
};
// Those that hold all of [address, address + size). Throws FabricFault: there are none.
DeviceSpan span_of(const DeviceDriver& driver, uint64_t address, size_t size);

// Throws FabricFault.
void* context_of(const DeviceDriver& driver, int ordinal);

}  // namespace verbena::compat
