// Checks of GPUs: what `verbena::Client::register_memory` of a device's memory will find.
#include "admin/doctor_gpu.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "memory/cuda_peer.h"

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

Finding way_by(const fabric::ofi::ProviderInfo& info, const PeerMeans& means) {
  Finding out{Health::ok, "gpu memory by " + info.provider, "staged: through page-locked memory of the client", {}};
  if (is_software(info.provider)) {
    out.mend = "not peer: this provider has no device that could write into a GPU";
  } else if (!info.device_memory) {
    out.mend = fmt::format(
        "not peer: libfabric registers no memory of GPUs for {} (FI_HMEM); of verbs it does so for devices whose name "
        "contains mlx5, if the kernel has dma-bufs or peer memory",
        info.domain.empty() ? "its device" : info.domain);
  } else if (!means.dma_buf && !means.peer_module) {
    out.mend =
        "not peer: the GPU's driver exports no dma-buf (its open kernel modules do), and nvidia_peermem is not loaded";
  } else {
    out.found =
        fmt::format("peer, unless sealed: {} reaches the memory itself ({}), else staged",
                    info.domain.empty() ? "the device" : info.domain, means.dma_buf ? "dma-buf" : "nvidia_peermem");
    out.mend = "the device's driver decides at each registration: a reply's fell_back_reason says why it did not";
  }
  return out;
}

}  // namespace

Findings gpu_ways(const std::vector<fabric::ofi::ProviderInfo>& providers, const PeerMeans& means) {
  Findings out{{Health::ok, "gpu memory by native local",
                "direct with a server that has gpudirect.enabled, else shared: through memory shared with a server on "
                "this host",
                "direct: the GPU copies for the server into memory of cuMemAlloc or cudaMalloc"}};
  std::set<std::string> told;
  for (const auto& info : providers) {
    if (!info.usable || !told.insert(info.provider).second) continue;
    out.push_back(way_by(info, means));
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
  const PeerMeans means{.dma_buf = std::ranges::any_of(*devices, &memory::cuda::DeviceFacts::dma_buf),
                        .peer_module = memory::cuda::has_peer_module()};
  if (!devices->empty()) append(out, gpu_ways(fabric::ofi::discover(), means));
  return out;
}

}  // namespace verbena::admin
