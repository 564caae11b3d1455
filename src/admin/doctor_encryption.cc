// Checks of what encrypts packets below Verbena. Nothing here is assumed to protect a path: `present` says what the
// machine has, and the operator's configuration says what uses it.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "admin/doctor.h"
#include "admin/link_encryption.h"
#include "admin/macsec.h"
#include "admin/mlx5_crypto.h"
#include "admin/network_links.h"
#include "admin/psp.h"
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

// A device of the network, and the word for what it has not: others that it sends through may have it.
struct Interface {
  const NetworkLinks& links;
  const std::string& name;
  bool sends_on = !links.below(name).empty() || links.sends_unnamed(name);
  std::string_view absent = sends_on ? "absent here" : "absent";
};

// Whether it is a MACsec interface, or which ones send through it: "macsec0 (encrypts, by the kernel)", "absent".
std::string macsec_over(const Interface& interface) {
  const auto names = interface.links.names();
  if (names.empty()) return "cannot be told";
  if (interface.links.is_macsec(interface.name))
    return fmt::format("itself ({})", describe(macsec_link(interface.name)));
  std::string out;
  for (const std::string& name : names) {
    if (!interface.links.is_macsec(name)) continue;
    const auto stack = interface.links.stack(name);
    if (std::ranges::find(stack, interface.name) == stack.end()) continue;
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", name, describe(macsec_link(name)));
  }
  return out.empty() ? std::string(interface.absent) : out;
}

// The kernel's flag is of the MAC. A PHY may do it in its place, and the kernel has no question for that.
std::string macsec_offload_of(const Interface& interface, Offload of_mac) {
  if (of_mac != Offload::absent) return std::string(to_string(of_mac));
  if (interface.links.has_phy(interface.name)) return "absent from the MAC, of the PHY cannot be told";
  return std::string(interface.absent);
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

// The kernel has a question for ESP's cipher alone, not for whole packets. But a device that does not even have that
// has no packet offload in any driver of Linux, and one that has taken something in packet offload can do it.
std::string packet_offload_of(const IpsecState& ipsec, Offload cipher, const Interface& interface) {
  const auto is_there = [&](const auto& all) {
    return all &&
           std::ranges::any_of(*all, [&](const auto& one) { return one.packet && one.device == interface.name; });
  };
  if (is_there(ipsec.associations) || is_there(ipsec.policies)) return "present, on";
  if (cipher == Offload::absent) return std::string(interface.absent);
  return cipher == Offload::unknown ? "cannot be told"
                                    : fmt::format("cannot be told (of ESP's cipher: {})", to_string(cipher));
}

// What it sends through; empty: itself is the last.
std::string way_on(const Interface& interface) {
  const auto below = interface.links.below(interface.name);
  if (!below.empty()) return fmt::format(", it sends through {}", fmt::join(below, ", "));
  return interface.sends_on ? ", it sends through another device, which the kernel does not name here" : "";
}

std::string about_interface(const Interface& interface, const IpsecState& ipsec) {
  const LinkFeatures features = link_features(interface.name);
  return fmt::format(
      "{}: IPsec packet offload {}, IPsec associations {}, IPsec paths {}, MACsec offload {}, MACsec interface {}{}",
      interface.name, packet_offload_of(ipsec, features.ipsec, interface),
      associations_of(ipsec.associations, interface.name),
      ipsec.policies ? describe(encrypted_paths(*ipsec.policies, interface.name)) : "cannot be told",
      macsec_offload_of(interface, features.macsec), macsec_over(interface), way_on(interface));
}

// The devices of the network that an RDMA device's packets may pass: those of its ports, and what is below them.
std::vector<std::string> passed_by(const NetworkLinks& links, const std::set<std::string>& of_ports) {
  std::vector<std::string> out;
  for (const std::string& of_port : of_ports) {
    for (std::string& name : links.stack(of_port)) {
      if (std::ranges::find(out, name) == out.end()) out.push_back(std::move(name));
    }
  }
  return out;
}

bool is_infiniband(const fs::path& rdma_device) {
  const auto ports = entries_of(rdma_device / "ports");
  return !ports.empty() && std::ranges::all_of(ports, [&](const std::string& port) {
    return first_line(rdma_device / "ports" / port / "link_layer") == "InfiniBand";
  });
}

// What protects a device's packets, if anything does.
std::string protection_of(bool infiniband, bool has_driver) {
  if (infiniband) return "nothing below Verbena protects this device's packets: rdma.encryption does";
  if (!has_driver) return "the kernel sends this device's packets: MACsec or IPsec of the kernel protects them";
  return "the device sends its packets itself: only packet offload of IPsec, or MACsec on its own port, protects them; "
         "IPsec of the kernel alone does not see them";
}

// Some of the kernel's settings are files in its first network namespace alone.
bool in_other_namespace(const MachineRoots& roots) {
  std::error_code ec;
  const fs::path folder = roots.proc / "sys/net/core";
  return fs::exists(folder / "somaxconn", ec) && !fs::exists(folder / "netdev_max_backlog", ec);
}

std::string of_inline(const std::string& device, const std::string& library) {
  std::string said = inline_aes_xts(device, library.c_str());
  if (said.starts_with("present")) said += " (for blocks of disks: it notices no change, and nothing here uses it)";
  return said;
}

Finding check_rdma_device(const MachineRoots& roots, const std::string& device, const IpsecState& ipsec) {
  const fs::path folder = roots.sys / "class/infiniband" / device;
  const std::string driver = driver_of(folder);
  Finding out{Health::ok, "encryption below " + device, {}, {}};
  // No other driver of Linux has it.
  out.found = "inline AES-XTS: " + (driver.starts_with("mlx5") ? of_inline(device, roots.mlx5) : "absent");
  const auto interfaces = interfaces_of(folder);
  const NetworkLinks links(roots.sys);
  for (const std::string& name : passed_by(links, interfaces)) {
    out.found += "; " + about_interface({.links = links, .name = name}, ipsec);
  }
  const bool infiniband = interfaces.empty() && is_infiniband(folder);
  if (infiniband) out.found += "; IPsec and MACsec: absent from InfiniBand";
  if (interfaces.empty() && !infiniband) {
    out.found += "; IPsec and MACsec: cannot be told (the kernel names no network device of its ports here)";
  }
  if (!interfaces.empty() && in_other_namespace(roots)) {
    out.found +=
        "; all of it is of this process's own network namespace, as in a container: whether the device's packets leave "
        "by it cannot be told";
  }
  out.mend = protection_of(infiniband, !driver.empty());
  return out;
}

Finding check_psp() {
  const Psp psp = ask_for_psp();
  return {Health::ok, "encryption PSP", describe(psp),
          psp.in_kernel == true
              ? "it encrypts TCP connections of programs that set it up: neither RDMA nor connections of Verbena"
              : ""};
}

}  // namespace

Finding judge_processor(const std::string& aes_instructions, const std::string& leaves_vaes_unused) {
  Finding out{Health::ok, "encryption by the processor", aes_instructions, {}};
  if (aes_instructions.empty()) {
    out.health = Health::warn;
    out.found = "no AES instructions: TLS and encrypted objects are slow";
  } else if (!leaves_vaes_unused.empty()) {
    const bool used = aes_instructions.starts_with("AES-NI, VAES");
    out.found += fmt::format("; {}{} does not use {} for AES-GCM (3.1 and later do)",
                             used ? "TLS by " : "VAES present, and ", leaves_vaes_unused, used ? "VAES" : "it");
  } else if (aes_instructions.starts_with("AES-NI (")) {
    out.found += "; VAES with AVX-512 absent";
  }
  return out;
}

Findings check_encryption(const MachineRoots& roots) {
  const std::string aes = aes_instructions();
  Findings out{judge_processor(aes, leaves_vaes_unused())};
  out.push_back(judge_ciphers(aes, fastest_aead(), aead_available(AeadKind::chacha20_poly1305)));
  out.push_back(check_psp());
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
