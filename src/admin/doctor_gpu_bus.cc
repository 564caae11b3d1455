// What the kernel's files say of GPUs: without their driver, which may be absent or broken.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "admin/doctor_gpu.h"
#include "base/kernel_files.h"

namespace verbena::admin {
namespace {

namespace fs = std::filesystem;
using memory::cuda::Platform;

constexpr const char* nvidia = "0x10de";
constexpr const char* amd = "0x1002";
constexpr const char* display_class = "0x03";
constexpr const char* accelerator_class = "0x12";

// A function's configuration space, as far as this user may read it: without privileges its first 64 bytes.
class PciConfig {
 public:
  explicit PciConfig(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
    size_ = static_cast<size_t>(file.gcount());
  }
  bool whole() const { return size_ == bytes_.size(); }
  // Where an extended capability begins.
  std::optional<size_t> capability(unsigned id) const {
    size_t at = 0x100;
    // A list that runs in a circle ends, too: there is no room for more entries.
    for (size_t i = 0; i < bytes_.size() / 4 && at >= 0x100 && at + 4 <= size_; ++i) {
      const unsigned head = word(at) | word(at + 2) << 16;
      if (head == 0) break;
      if ((head & 0xffff) == id) return at;
      at = head >> 20 & ~3u;
    }
    return std::nullopt;
  }
  unsigned word(size_t at) const {
    if (at + 2 > size_) return 0;
    return bytes_[at] | static_cast<unsigned>(bytes_[at + 1]) << 8;
  }

 private:
  std::array<unsigned char, 4096> bytes_{};
  size_t size_ = 0;
};

// Bridges of a GPU whose access control services send its requests, or the answers, through the root complex.
struct Acs {
  std::vector<std::string> redirecting;
  bool known = true;
};

bool is_pci_address(const std::string& name) { return name.size() == 12 && name[4] == ':' && name[10] == '.'; }

Acs acs_above(const fs::path& device) {
  constexpr unsigned acs_capability = 0x0d, control_at = 6, redirects = 0x04 | 0x08;
  Acs out;
  std::error_code ec;
  const fs::path real = fs::canonical(device, ec);
  if (ec) return {{}, false};
  for (fs::path bridge = real.parent_path(); is_pci_address(bridge.filename()); bridge = bridge.parent_path()) {
    const PciConfig config(bridge / "config");
    const auto acs = config.capability(acs_capability);
    if (!acs && !config.whole()) out.known = false;
    if (acs && (config.word(*acs + control_at) & redirects) != 0) out.redirecting.push_back(bridge.filename());
  }
  return out;
}

Finding check_place(const MachineRoots& roots, const std::string& address) {
  const fs::path device = roots.sys / "bus/pci/devices" / address;
  Finding out{Health::ok, "gpu at " + address, {}, {}};
  const std::string node = first_line(device / "numa_node"), group = first_line(device / "iommu_group/type");
  const Acs acs = acs_above(device);
  out.found = fmt::format("NUMA node {}, IOMMU {}, ACS of the bridges above it ", node.empty() ? "unknown" : node,
                          group.empty() ? "off" : group);
  if (!acs.redirecting.empty()) {
    std::string bridges;
    for (const auto& one : acs.redirecting) bridges += (bridges.empty() ? "" : ";") + one;
    out.found += "redirects at " + bridges;
    out.mend = fmt::format(
        "DMA between this GPU and an RDMA device would go through the root complex: the kernel's option "
        "pci=disable_acs_redir={} makes it direct, if no virtual machine uses these devices",
        bridges);
  } else {
    out.found += acs.known ? "does not redirect" : "cannot be told (only root may read it)";
  }
  if (group.starts_with("DMA")) {
    if (!out.mend.empty()) out.mend += "; ";
    out.mend += "the IOMMU translates its DMA: the kernel's option iommu=pt lets peers reach it by its own addresses";
  }
  return out;
}

// Those of NVIDIA's that every process which uses a GPU opens.
std::vector<std::string> nvidia_files(const MachineRoots& roots) {
  std::vector<std::string> files{"nvidiactl"};
  for (const std::string& name : entries_of(roots.dev)) {
    if (name.starts_with("nvidia") && name.size() > 6 && name.find_first_not_of("0123456789", 6) == std::string::npos) {
      files.push_back(name);
    }
  }
  return files;
}

// Likewise AMD's. Some nodes may be of other devices.
std::vector<std::string> amd_files(const MachineRoots& roots) {
  std::vector<std::string> files{"kfd"};
  for (const std::string& name : entries_of(roots.dev / "dri")) {
    if (name.starts_with("renderD")) files.push_back("dri/" + name);
  }
  return files;
}

Findings check_files(const MachineRoots& roots, const std::vector<std::string>& files, const char* mend) {
  Findings out;
  for (const std::string& name : files) {
    const fs::path path = roots.dev / name;
    if (::access(path.c_str(), R_OK | W_OK) == 0) continue;
    out.push_back({Health::warn, "gpu device file " + path.string(), std::strerror(errno), mend});
  }
  return out;
}

// GPUs in MIG, by the instances that were made of them.
Findings check_mig(const MachineRoots& roots) {
  const fs::path folder = roots.proc / "driver/nvidia/capabilities";
  Findings out;
  for (const std::string& gpu : entries_of(folder)) {
    if (!gpu.starts_with("gpu")) continue;
    const auto made = entries_of(folder / gpu / "mig");
    const auto instances = std::ranges::count_if(made, [](const std::string& name) { return name.starts_with("gi"); });
    if (instances == 0) continue;
    out.push_back(
        {Health::ok, gpu + " in MIG", fmt::format("{} instances", instances),
         "the driver shows a process one instance: CUDA_VISIBLE_DEVICES=MIG-UUID chooses it (`nvidia-smi -L`)"});
  }
  return out;
}

}  // namespace

std::vector<GpuOnBus> gpus_on_bus(const MachineRoots& roots) {
  std::vector<GpuOnBus> out;
  // A processor's graphics are AMD's, too. Without the kernel's compute driver they show pictures alone.
  const bool computes = fs::exists(roots.dev / "kfd");
  for (const std::string& address : entries_of(roots.sys / "bus/pci/devices")) {
    const fs::path device = roots.sys / "bus/pci/devices" / address;
    const std::string vendor = first_line(device / "vendor"), kind = first_line(device / "class");
    const bool nvidias = vendor == nvidia && kind.starts_with(display_class);
    const bool amds =
        vendor == amd && computes && (kind.starts_with(display_class) || kind.starts_with(accelerator_class));
    if (nvidias || amds) out.push_back({address, nvidias ? Platform::cuda : Platform::rocm});
  }
  return out;
}

Findings check_gpu_bus(const MachineRoots& roots) {
  Findings out;
  const std::vector<GpuOnBus> gpus = gpus_on_bus(roots);
  const auto has = [&](Platform platform) {
    return std::ranges::find(gpus, platform, &GpuOnBus::platform) != gpus.end();
  };
  for (const GpuOnBus& gpu : gpus) out.push_back(check_place(roots, gpu.address));
  if (has(Platform::cuda)) {
    append(out, check_files(roots, nvidia_files(roots),
                            "a container needs to be given the devices (docker run --gpus all); elsewhere the driver's "
                            "module makes these files, and `ls -l /dev/nvidia*` shows who may open them"));
    append(out, check_mig(roots));
    const bool peers = fs::exists(roots.sys / "module/nvidia_peermem");
    out.push_back({Health::ok, "gpu peer memory", peers ? "nvidia_peermem is loaded" : "nvidia_peermem is not loaded",
                   peers ? "RDMA devices reach memory of GPUs also where the driver exports no dma-buf"
                         : "RDMA devices reach memory of GPUs by dma-bufs alone, if the driver exports them"});
  }
  if (has(Platform::rocm)) {
    append(out, check_files(roots, amd_files(roots),
                            "a container needs to be given the devices (docker run --device /dev/kfd --device "
                            "/dev/dri); elsewhere the groups `render` and `video` may open these files"));
  }
  return out;
}

}  // namespace verbena::admin
