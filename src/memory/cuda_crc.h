// CRCs of a device's memory by a kernel on it (crc_kernel.h), in the order of a queue. NVIDIA's alone: AMD's driver
// takes no PTX. One thread at a time.
#pragma once

#include <memory>
#include <string>

#include "memory/crc_kernel.h"
#include "memory/cuda.h"

namespace verbena::memory::cuda {

class CrcModule;  // what the driver has loaded

class DeviceCrc {
 public:
  // Loads the kernel on the queue's device, which compiles it. The driver may wait for the device meanwhile, and
  // nothing ends such a call: so a thread of its own makes it, which is left alone at the deadline (`late`) or when the
  // caller stops (`cancelled`). What it has got then is for the next call that needs the same on that device; while the
  // driver still loads it, calls for that device are `late` at once, and no others. `late` also where no thread is to
  // be had. `failed`: the driver's answer, or it has no such calls. `queue` outlives it. `text`: for tests, instead of
  // crc_kernel().
  static Outcome<std::unique_ptr<DeviceCrc>> load(Queue& queue, Algorithm algorithm, Deadline until,
                                                  const std::stop_token& stop = {}, const std::string& text = {});
  // All launched work has ended.
  ~DeviceCrc();
  DeviceCrc(const DeviceCrc&) = delete;
  DeviceCrc& operator=(const DeviceCrc&) = delete;

  Algorithm algorithm() const { return algorithm_; }
  // Queued: the registers of a range of at least one byte to places first .. first + crc_blocks() - 1 of at most
  // crc_results_max.
  Outcome<> launch(uint64_t address, uint64_t size, size_t first);
  // Where on the device the registers are: 8 bytes each.
  uint64_t results() const;

 private:
  DeviceCrc(Queue& queue, Algorithm algorithm, std::unique_ptr<CrcModule> module);

  Queue& queue_;
  const Algorithm algorithm_;
  const std::unique_ptr<CrcModule> module_;
};

}  // namespace verbena::memory::cuda
