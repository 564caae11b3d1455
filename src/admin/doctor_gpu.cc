// Checks of GPUs: what `verbena::Client::register_memory` of a device's memory will find.
#include "admin/doctor_gpu.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "memory/cuda_peer.h"

namespace verbena::admin {
namespace {

// Providers without a device of their own that could write into another's memory.
bool is_software(const std::string& provider) { return provider.starts_with("tcp") || provider.starts_with("shm"); }

using memory::cuda::DeviceFacts;
using memory::cuda::Driver;
using memory::cuda::Platform;

// AMD's devices have numbers of their own.
Finding device_finding(const Driver& driver, const DeviceFacts& device) {
  return {Health::ok,
          fmt::format("gpu {}{}", driver.platform() == Platform::rocm ? "rocm:" : "", device.device),
          fmt::format("{}, {}; {} dma-buf export", device.name, format_size(device.bytes),
                      device.dma_buf ? "with" : "without"),
          {}};
}

// Of the GPU and its driver; empty: nothing stands in the way.
std::string why_not_peer(const GpuMeans& means) {
  const bool amd = means.platform == Platform::rocm;
  if (!means.dma_buf && !means.peer_module) {
    return fmt::format("the GPU's driver exports no dma-buf ({}), and {} is not there",
                       amd ? "the kernel is too old" : "its open kernel modules do",
                       memory::cuda::peer_module(means.platform));
  }
  if (!means.unsure) return {};
  return fmt::format("the driver does not say that the GPU sees what other devices have written{}",
                     amd ? ": hipDeviceFlushGPUDirectRDMAWrites is missing, or not for this GPU" : "");
}

Finding way_by(const fabric::ofi::ProviderInfo& info, const GpuMeans& means) {
  Finding out{Health::ok, "gpu memory by " + info.provider, "staged: through page-locked memory of the client", {}};
  if (is_software(info.provider)) {
    out.mend = "not peer: this provider has no device that could write into a GPU";
  } else if (!info.device_memory) {
    out.mend = fmt::format(
        "not peer: libfabric registers no memory of GPUs for {} (FI_HMEM); of verbs it does so for devices whose name "
        "contains mlx5, if the kernel has dma-bufs or peer memory",
        info.domain.empty() ? "its device" : info.domain);
  } else if (const std::string why = why_not_peer(means); !why.empty()) {
    out.mend = "not peer: " + why;
  } else {
    out.found = fmt::format("peer, unless sealed: {} reaches the memory itself ({}), else staged",
                            info.domain.empty() ? "the device" : info.domain,
                            means.dma_buf ? "dma-buf" : memory::cuda::peer_module(means.platform));
    out.mend = "the device's driver decides at each registration: a reply's fell_back_reason says why it did not";
  }
  return out;
}

// With a server on this host. What decides more is that server's to say: a reply's fell_back_reason has it.
Finding way_by_local(const GpuMeans& means) {
  Finding out{Health::ok,
              "gpu memory by native local",
              "direct with a server that has gpudirect.enabled, else shared: through memory shared with a server on "
              "this host",
              {}};
  if (means.platform == Platform::cuda) {
    out.mend = "direct: the GPU copies for the server into memory of cuMemAlloc or cudaMalloc";
    out.mend += means.descriptors ? ", or by descriptors" : "; by descriptors not: the driver gives none";
  } else if (means.descriptors) {
    out.mend =
        "direct: the GPU copies for the server into memory shared by descriptors, and into that of hipMalloc if the "
        "server has gpudirect.rocm_handles";
  } else {
    out.found =
        "direct with a server that has gpudirect.enabled and gpudirect.rocm_handles, else shared: through memory "
        "shared with a server on this host";
    out.mend =
        "not direct without gpudirect.rocm_handles: the driver gives no descriptors (ROCm does from 7.14 on), and "
        "handles are taken with that key alone";
  }
  return out;
}

}  // namespace

Findings gpu_ways(const std::vector<fabric::ofi::ProviderInfo>& providers, const GpuMeans& means) {
  Findings out{way_by_local(means)};
  std::vector<fabric::ofi::ProviderInfo> best;  // of each provider, in order
  for (const auto& info : providers) {
    if (!info.usable) continue;
    const auto same = std::ranges::find(best, info.provider, &fabric::ofi::ProviderInfo::provider);
    if (same == best.end()) {
      best.push_back(info);
    } else if (info.device_memory && !same->device_memory) {
      *same = info;
    }
  }
  for (const auto& info : best) out.push_back(way_by(info, means));
  out.push_back({Health::ok, "gpu memory by http", "staged: through page-locked memory of the client",
                 "a socket's bytes pass through host memory"});
  return out;
}

namespace {

// Of all devices of a driver, which are at least one.
GpuMeans means_of(const Driver& driver, const std::vector<DeviceFacts>& devices) {
  using memory::cuda::PeerWrites;
  return {
      .dma_buf = std::ranges::any_of(devices, &DeviceFacts::dma_buf),
      .peer_module = memory::cuda::has_peer_module(driver.platform()),
      .descriptors = std::ranges::any_of(devices, &DeviceFacts::descriptors),
      .unsure = std::ranges::all_of(
          devices, [&](const DeviceFacts& device) { return peer_writes(driver, device.device) == PeerWrites::unsure; }),
      .platform = driver.platform()};
}

// The driver, its devices; adds what they let RDMA devices do.
Findings driver_findings(const Driver& driver, std::vector<GpuMeans>& all) {
  const bool amd = driver.platform() == Platform::rocm;
  Findings out{{Health::ok, amd ? "gpu driver rocm" : "gpu driver", driver.title(), {}}};
  const auto devices = driver.devices();
  if (!devices) {
    out.push_back({Health::warn, "gpu", devices.error().text,
                   amd ? "may this user open /dev/kfd and /dev/dri/renderD*? `rocminfo` lists the devices"
                       : "may this user open /dev/nvidia*? `nvidia-smi` lists them"});
    return out;
  }
  for (const DeviceFacts& device : *devices) out.push_back(device_finding(driver, device));
  if (!devices->empty()) all.push_back(means_of(driver, *devices));
  return out;
}

}  // namespace

Findings driver_faults(const memory::cuda::Drivers& known, const std::vector<GpuOnBus>& gpus) {
  using memory::cuda::Fault;
  Findings out;
  const auto has = [&](const Fault& fault) {
    return std::ranges::any_of(gpus, [&](const GpuOnBus& gpu) { return gpu.platform == fault.platform; });
  };
  for (const Fault& fault : known.faults) {
    if (has(fault)) {
      out.push_back(
          {Health::warn, "gpu", fault.text, "there is a GPU, but its memory cannot be used until its driver starts"});
    } else if (!fault.no_library) {
      out.push_back({fault.kind == Fault::Kind::absent ? Health::ok : Health::warn, "gpu", fault.text, ""});
    }
  }
  if (known.ready.empty() && out.empty()) {
    for (const Fault& fault : known.told()) out.push_back({Health::ok, "gpu", fault.text, ""});
  }
  return out;
}

Findings check_gpus(const MachineRoots& roots) {
  Findings out = check_gpu_bus(roots);
  const memory::cuda::Drivers known = memory::cuda::drivers();
  append(out, driver_faults(known, gpus_on_bus(roots)));
  std::vector<GpuMeans> means;  // NVIDIA's first
  for (const Driver* driver : known.ready) append(out, driver_findings(*driver, means));
  if (!means.empty()) append(out, gpu_ways(fabric::ofi::discover(), means.front()));
  if (means.size() > 1) {
    Finding local = way_by_local(means.back());
    local.subject = "gpu memory rocm by native local";
    out.push_back(std::move(local));
    const std::string why = why_not_peer(means.back());
    out.push_back({Health::ok, "gpu memory rocm by RDMA devices",
                   why.empty() ? "as NVIDIA's" : "staged: through page-locked memory of the client",
                   why.empty() ? "" : "not peer: " + why});
  }
  return out;
}

}  // namespace verbena::admin
