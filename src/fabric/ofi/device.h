// Limits of an RDMA device that only libibverbs reports: the sizes of its queues. libfabric passes requested sizes on
// and reports a refusal as "no such provider" or as an errno without a name.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace verbena::fabric::ofi {

struct DeviceLimits {
  size_t work_requests = 0;    // of one queue, send or receive
  size_t scatter_entries = 0;  // of one work request
  size_t completions = 0;      // of one completion queue
};

// nullopt: no device of that name, or it cannot be opened.
std::optional<DeviceLimits> device_limits(const std::string& device);

}  // namespace verbena::fabric::ofi
