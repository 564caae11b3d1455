// Host memory that is page-locked for one transfer.
#pragma once

#include <memory>
#include <stop_token>

#include "memory/cuda.h"

namespace verbena::memory::cuda {

class PageLock {
 public:
  // Page-locks memory for the queue's device. `owner` has the memory: it is released when the driver has given it up,
  // by another thread. `late`: the driver has not done so by `until`, or does not return from too many earlier calls;
  // no copy may wait for it then. `failed`: it refuses.
  static Outcome<std::unique_ptr<PageLock>> take(const Queue& queue, MutableBytes memory,
                                                 std::shared_ptr<const void> owner, Deadline until,
                                                 const std::stop_token& stop);
  // No copy uses it any more. Waits for the driver for a short while; HIP's waits for all streams of the device.
  ~PageLock();
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;

 private:
  class Held;
  explicit PageLock(std::unique_ptr<Held> held);
  std::unique_ptr<Held> held_;
};

}  // namespace verbena::memory::cuda
