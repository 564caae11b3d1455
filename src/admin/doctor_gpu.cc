// Checks of GPUs: what `verbena::Client::register_memory` of a device's memory will find.
#include <fmt/core.h>

#include "admin/doctor.h"
#include "base/bytes.h"
#include "memory/cuda.h"

namespace verbena::admin {

Findings check_gpus() {
  using memory::cuda::Driver;
  const auto driver = Driver::get();
  if (!driver) {
    const bool there = driver.error().kind != memory::cuda::Fault::Kind::absent;
    return {{there ? Health::warn : Health::ok, "gpu", driver.error().text, {}}};
  }
  Findings out{{Health::ok, "gpu driver", (*driver)->title(), {}}};
  const auto devices = (*driver)->devices();
  if (!devices) {
    out.push_back(
        {Health::warn, "gpu", devices.error().text, "may this user open /dev/nvidia*? `nvidia-smi` lists them"});
    return out;
  }
  for (const auto& device : *devices) {
    out.push_back({Health::ok,
                   fmt::format("gpu {}", device.device),
                   fmt::format("{}, {}; {} dma-buf export", device.name, format_size(device.bytes),
                               device.dma_buf ? "with" : "without"),
                   {}});
  }
  if (!devices->empty()) {
    out.push_back({Health::ok, "gpu memory as a window",
                   "shared with a server on this host, staged by every other way (docs/gpu.md)",
                   "this version has no peer DMA by RDMA devices, and a server does not write into a GPU by itself"});
  }
  return out;
}

}  // namespace verbena::admin
