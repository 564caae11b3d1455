// CRCs of a device's memory by a kernel on it (crc_kernel.h), in the order of a queue. NVIDIA's alone: AMD's driver
// takes no PTX. One thread at a time.
#pragma once

#include <memory>
#include <string>

#include "memory/crc_kernel.h"
#include "memory/cuda.h"

namespace verbena::memory::cuda {

class DeviceCrc {
 public:
  // Loads the kernel on the queue's device, which compiles it; the driver may wait for the device meanwhile. `queue`
  // outlives it. `failed`: the driver's answer, or it has no such calls. `text`: for tests, instead of crc_kernel().
  static Outcome<std::unique_ptr<DeviceCrc>> load(Queue& queue, Algorithm algorithm, const std::string& text = {});
  // All launched work has ended.
  ~DeviceCrc();
  DeviceCrc(const DeviceCrc&) = delete;
  DeviceCrc& operator=(const DeviceCrc&) = delete;

  Algorithm algorithm() const { return algorithm_; }
  // Queued: the registers of a range of at least one byte to places first .. first + crc_blocks() - 1 of at most
  // crc_results_max.
  Outcome<> launch(uint64_t address, uint64_t size, size_t first);
  // Where on the device the registers are: 8 bytes each.
  uint64_t results() const { return results_; }

 private:
  DeviceCrc(Queue& queue, Algorithm algorithm) : queue_(queue), algorithm_(algorithm) {}

  Queue& queue_;
  Algorithm algorithm_;
  void* module_ = nullptr;
  void* function_ = nullptr;
  uint64_t results_ = 0;
};

}  // namespace verbena::memory::cuda
