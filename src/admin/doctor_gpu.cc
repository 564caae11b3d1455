// Checks of GPUs: what `verbena::Client::register_memory` of a device's memory will find.
#include "admin/doctor_gpu.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "memory/cuda.h"

namespace verbena::admin {
namespace {

// Providers without a device of their own that could write into another's memory.
bool is_software(const std::string& provider) { return provider.starts_with("tcp") || provider.starts_with("shm"); }

Finding device_finding(const memory::cuda::DeviceFacts& device) {
  return {Health::ok,
          fmt::format("gpu {}", device.device),
          fmt::format("{}, {}; {} dma-buf export", device.name, format_size(device.bytes),
                      device.dma_buf ? "with" : "without"),
          {}};
}

}  // namespace

Findings gpu_ways(const std::vector<fabric::ofi::ProviderInfo>& providers, bool dma_buf) {
  Findings out{{Health::ok, "gpu memory by native local",
                "direct with a server that has gpudirect.enabled, else shared: through memory shared with a server on "
                "this host",
                "direct: the GPU copies for the server into memory of cuMemAlloc or cudaMalloc"}};
  std::set<std::string> told;
  for (const auto& info : providers) {
    if (!info.usable || !told.insert(info.provider).second) continue;
    std::string why = "not peer DMA: this provider has no device that could write into a GPU";
    if (!is_software(info.provider)) {
      why = fmt::format("not peer DMA: this version has none; the driver {} export the memory as a dma-buf",
                        dma_buf ? "can" : "cannot");
    }
    out.push_back({Health::ok, "gpu memory by " + info.provider, "staged: through page-locked memory of the client",
                   std::move(why)});
  }
  out.push_back({Health::ok, "gpu memory by http", "staged: through page-locked memory of the client",
                 "a socket's bytes pass through host memory"});
  return out;
}

Findings check_gpus(const MachineRoots& roots) {
  using memory::cuda::Driver;
  Findings out = check_gpu_bus(roots);
  const bool there = !out.empty();
  const auto driver = Driver::get();
  if (!driver) {
    const bool absent = driver.error().kind == memory::cuda::Fault::Kind::absent;
    out.push_back({there || !absent ? Health::warn : Health::ok, "gpu", driver.error().text,
                   there ? "there is a GPU, but its memory cannot be used until NVIDIA's driver starts" : ""});
    return out;
  }
  out.push_back({Health::ok, "gpu driver", (*driver)->title(), {}});
  const auto devices = (*driver)->devices();
  if (!devices) {
    out.push_back(
        {Health::warn, "gpu", devices.error().text, "may this user open /dev/nvidia*? `nvidia-smi` lists them"});
    return out;
  }
  std::ranges::transform(*devices, std::back_inserter(out), device_finding);
  const bool dma_buf = std::ranges::any_of(*devices, &memory::cuda::DeviceFacts::dma_buf);
  if (!devices->empty()) append(out, gpu_ways(fabric::ofi::discover(), dma_buf));
  return out;
}

}  // namespace verbena::admin
