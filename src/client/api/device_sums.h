// Checksums of what is in a device's memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "client/api/device.h"

namespace verbena::client {

struct DeviceRange {
  uint64_t address = 0, size = 0;
};

struct DeviceSums {
  std::vector<std::string> base64;  // of each range
  DeviceVerified by = DeviceVerified::none;
  uint64_t read_back_bytes = 0;
};

// By a kernel on the device, if it has one for the algorithm and the driver takes it; else the bytes are copied to the
// lane's ring and read there. Ranges lie in the memory of the lane's device. Fails as its copies do, and with
// `cancelled`.
Outcome<DeviceSums> device_sums(DeviceCopies& copies, Algorithm algorithm, std::span<const DeviceRange> ranges,
                                const std::stop_token& stop);

}  // namespace verbena::client
