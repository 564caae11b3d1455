// Checks of what encrypts packets below Verbena. Nothing here is assumed to protect a path: `present` says what the
// machine has, and the operator's configuration says what uses it.
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "admin/doctor.h"
#include "admin/link_encryption.h"
#include "base/aead_available.h"
#include "base/kernel_files.h"

namespace verbena::admin {
namespace {

namespace fs = std::filesystem;

// The network devices of an RDMA device's ports.
std::set<std::string> interfaces_of(const fs::path& rdma_device) {
  std::set<std::string> out;
  for (const std::string& port : entries_of(rdma_device / "ports")) {
    const fs::path table = rdma_device / "ports" / port / "gid_attrs/ndevs";
    for (const std::string& index : entries_of(table)) {
      if (std::string name = first_line(table / index); !name.empty()) out.insert(std::move(name));
    }
  }
  return out;
}

bool is_macsec(const fs::path& interface) {
  std::ifstream file(interface / "uevent");
  for (std::string line; std::getline(file, line);) {
    if (line == "DEVTYPE=macsec") return true;
  }
  return false;
}

// MACsec interfaces that send through `interface`.
std::string macsec_over(const MachineRoots& roots, const std::string& interface) {
  std::string out;
  std::error_code ec;
  for (const std::string& name : entries_of(roots.sys / "class/net")) {
    const fs::path folder = roots.sys / "class/net" / name;
    if (!fs::exists(folder / ("lower_" + interface), ec)) continue;
    if (is_macsec(folder)) out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

std::string driver_of(const fs::path& rdma_device) {
  std::error_code ec;
  const fs::path target = fs::read_symlink(rdma_device / "device/driver", ec);
  return ec ? std::string() : target.filename().string();
}

// What the kernel says; nullopt: it may not be asked.
struct IpsecState {
  std::optional<std::vector<IpsecAssociation>> associations;
  std::optional<std::vector<IpsecPolicy>> policies;
};

std::string associations_of(const std::optional<std::vector<IpsecAssociation>>& all, const std::string& interface) {
  if (!all) return "cannot be told (it needs CAP_NET_ADMIN)";
  const auto on_it = [&](const IpsecAssociation& one) { return one.packet && one.device == interface; };
  return fmt::format("{} of the host's {} in packet offload here", std::ranges::count_if(*all, on_it), all->size());
}

std::string paths_of(const std::optional<std::vector<IpsecPolicy>>& all, const std::string& interface) {
  constexpr size_t named_max = 8;
  if (!all) return "cannot be told";
  auto paths = encrypted_paths(*all, interface);
  if (paths.empty()) return "none";
  const size_t more = paths.size() - std::min(paths.size(), named_max);
  paths.resize(paths.size() - more);
  return fmt::format("{}{}", fmt::join(paths, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

Finding check_rdma_device(const MachineRoots& roots, const std::string& device, const IpsecState& ipsec) {
  const fs::path folder = roots.sys / "class/infiniband" / device;
  const std::string driver = driver_of(folder);
  const bool mlx5 = driver.starts_with("mlx5");
  Finding out{Health::ok, "encryption below " + device, {}, {}};
  out.found = fmt::format("inline AES-XTS: {}", mlx5 ? "cannot be told (mlx5's DEK objects)" : "absent");
  for (const std::string& interface : interfaces_of(folder)) {
    const LinkFeatures features = link_features(interface);
    const std::string macsec = macsec_over(roots, interface);
    out.found += fmt::format(
        "; {}: IPsec offload {}, IPsec associations {}, IPsec paths {}, MACsec offload {}, MACsec interface {}",
        interface, to_string(features.ipsec), associations_of(ipsec.associations, interface),
        paths_of(ipsec.policies, interface), to_string(features.macsec), macsec.empty() ? "absent" : macsec);
  }
  out.mend = driver.empty() ? "the kernel sends this device's packets: MACsec or IPsec of the kernel protects them"
                            : "the device sends its packets itself: only packet offload of IPsec, or MACsec on its own "
                              "port, protects them; IPsec of the kernel alone does not see them";
  return out;
}

}  // namespace

Findings check_encryption(const MachineRoots& roots) {
  const std::string aes = aes_instructions();
  Findings out{{aes.empty() ? Health::warn : Health::ok,
                "encryption by the processor",
                aes.empty() ? "no AES instructions: TLS and encrypted objects are slow" : aes,
                {}}};
  out.push_back(judge_ciphers(aes, fastest_aead(), aead_available(AeadKind::chacha20_poly1305)));
  const auto psp = kernel_has_psp();
  out.push_back({Health::ok,
                 "encryption PSP",
                 !psp   ? "cannot be told"
                 : *psp ? "the kernel has it; which devices have it cannot be told"
                        : "absent from this kernel",
                 {}});
  const auto devices = entries_of(roots.sys / "class/infiniband");
  if (devices.empty()) {
    out.push_back({Health::ok, "encryption below RDMA devices", "no RDMA device: TLS protects what goes over tcp", {}});
    return out;
  }
  const IpsecState ipsec{ipsec_associations(), ipsec_policies()};
  for (const std::string& device : devices) out.push_back(check_rdma_device(roots, device, ipsec));
  return out;
}

}  // namespace verbena::admin
