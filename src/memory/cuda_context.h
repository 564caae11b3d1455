// Calls of the driver in a device's context. Private to this room.
#pragma once

#include "memory/cuda.h"
#include "memory/cuda_calls.h"

namespace verbena::memory::cuda {

// The device's context on this thread, while it lives.
class Current {
 public:
  Current(const Calls& calls, void* context) : calls_(calls), status_(calls.push(context)) {}
  ~Current() {
    void* was = nullptr;
    if (status_ == success) calls_.pop(&was);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  int status() const { return status_; }

 private:
  const Calls& calls_;
  int status_;
};

// Runs one call of the driver in the context.
template <class Fn>
Outcome<> in_context(const Driver& driver, void* context, const char* name, Fn&& call) {
  const Current current(driver.calls(), context);
  if (current.status() != success) return std::unexpected(driver.fault("cuCtxPushCurrent", current.status()));
  if (const int status = call(driver.calls()); status != success) return std::unexpected(driver.fault(name, status));
  return {};
}

// The primary context of a device, which is kept until the process ends, as the runtime keeps it.
inline Outcome<void*> context_of(const Driver& driver, int device) {
  int handle = 0;
  void* context = nullptr;
  if (const int status = driver.calls().device(&handle, device); status != success) {
    return std::unexpected(driver.fault("cuDeviceGet", status));
  }
  if (const int status = driver.calls().primary_context(&context, handle); status != success) {
    return std::unexpected(driver.fault("cuDevicePrimaryCtxRetain", status));
  }
  return context;
}

}  // namespace verbena::memory::cuda
