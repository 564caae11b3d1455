// `verbena bench --memory cuda` (or rocm): objects to and from the memory of a device.
#pragma once

#include <memory>

#include "cli/bench/runner.h"

namespace verbena::cli {

// Memory of this program on a device, with the driver's own copies.
class DeviceArea {
 public:
  static Outcome<std::unique_ptr<DeviceArea>> make(const BenchDevice& device, uint64_t size);
  ~DeviceArea();
  DeviceArea(const DeviceArea&) = delete;
  DeviceArea& operator=(const DeviceArea&) = delete;

  DeviceBuffer window() const {
    return {.kind = device_.kind, .address = address_, .size = size_, .device = device_.number};
  }
  Outcome<> write(std::span<const std::byte> from) const;
  Outcome<> read(std::span<std::byte> into) const;

 private:
  struct Calls;
  DeviceArea(const BenchDevice& device, uint64_t size);
  // Runs one call of the driver in the device's context.
  template <class Fn>
  Outcome<> call(const char* name, Fn&& fn) const;

  BenchDevice device_;
  uint64_t size_, address_ = 0;
  void* context_ = nullptr;
  std::unique_ptr<Calls> calls_;
};

// "get", "put", "get_many", "put_many", and "get_copy": a GET into host memory and the driver's copy of it.
bool device_serves(const std::string& op);
// Until a session of that server's goes the way `direct`, or says why not; for some seconds at most: a server's GPUs
// copy a while after its doors are open. Standard error says if it does not go that way.
void wait_for_direct(const BenchServer& server, const std::string& bucket, const BenchDevice& device);
// As measure() and measure_many(), on device `plan.device`. The row has the way of the bytes.
Outcome<BenchRow> measure_on_device(const Client& client, const BenchServer& server, const std::string& bucket,
                                    Via door, const std::string& op, uint64_t size, unsigned concurrency,
                                    const BenchPlan& plan);

}  // namespace verbena::cli
