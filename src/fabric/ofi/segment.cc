#include "fabric/ofi/segment.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/if_vlan.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/fd.h"
#include "base/kernel_files.h"
#include "base/log.h"

namespace verbena::fabric::ofi {
namespace {

namespace fs = std::filesystem;

// "0x8001", as sysfs has partition keys.
std::optional<uint16_t> read_pkey(const fs::path& file) {
  const std::string text = first_line(file);
  uint16_t value = 0;
  if (!text.starts_with("0x")) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_chosen(const SegmentDevice& device, const std::string& name, const std::string& port) {
  return (device.name.empty() || device.name == name) && (!device.port || std::to_string(*device.port) == port);
}

// Ports of RDMA devices that may be used: their folders in sysfs.
std::vector<fs::path> ports_of(const SegmentDevice& device, const fs::path& sys) {
  std::vector<fs::path> out;
  const fs::path all = sys / "class/infiniband";
  for (const std::string& name : entries_of(all)) {
    for (const std::string& port : entries_of(all / name / "ports")) {
      if (is_chosen(device, name, port)) out.push_back(all / name / "ports" / port);
    }
  }
  return out;
}

bool is_member(const fs::path& port, uint16_t pkey) {
  return std::ranges::any_of(entries_of(port / "pkeys"), [&](const std::string& index) {
    const auto one = read_pkey(port / "pkeys" / index);
    return one && partition_of(*one) == partition_of(pkey);
  });
}

std::string shown(uint16_t pkey) { return fmt::format("rdma.pkey 0x{:04x}", pkey); }

std::string name_of(const SegmentDevice& device) {
  const std::string port = device.port ? fmt::format("port {} of ", *device.port) : "";
  return port + (device.name.empty() ? "this machine's RDMA devices" : log::printable(device.name, 64));
}

std::expected<void, std::string> check_member(uint16_t pkey, const SegmentDevice& device, const fs::path& sys) {
  const auto ports = ports_of(device, sys);
  if (std::ranges::any_of(ports, [&](const fs::path& port) { return is_member(port, pkey); })) return {};
  return std::unexpected(
      fmt::format("{}: {}: no port is a member of this partition (see class/infiniband/*/ports/*/pkeys; the subnet "
                  "manager decides)",
                  shown(pkey), name_of(device)));
}

// Whether the interface belongs to a device that may be used. RoCE's GID table names its interfaces; IPoIB's have a
// link to their device.
bool is_of_device(const std::string& interface, const SegmentDevice& device, const fs::path& sys) {
  if (device.name.empty() && !device.port) return true;
  std::error_code error;
  const fs::path own = sys / "class/net" / interface / "device/infiniband";
  if (!device.name.empty() && fs::exists(own / device.name, error)) return true;
  return std::ranges::any_of(ports_of(device, sys), [&](const fs::path& port) {
    const fs::path names = port / "gid_attrs/ndevs";
    return std::ranges::any_of(entries_of(names),
                               [&](const std::string& index) { return first_line(names / index) == interface; });
  });
}

// Empty: the interface belongs to the segment. Else why not.
std::string mismatch(const Segment& segment, const std::string& interface, const Interfaces& machine) {
  if (segment.pkey) {
    const auto own = read_pkey(machine.sys / "class/net" / interface / "pkey");
    if (!own) return "is not an interface of InfiniBand";
    if (partition_of(*own) != partition_of(*segment.pkey)) return fmt::format("is in the partition 0x{:04x}", *own);
  }
  if (segment.vlan) {
    const auto own = machine.vlan(interface);
    if (!own) return "is not a VLAN's interface";
    if (*own != *segment.vlan) return fmt::format("is in the VLAN {}", *own);
  }
  return "";
}

std::string key_of(const Segment& segment) {
  return segment.pkey ? shown(*segment.pkey) : fmt::format("rdma.vlan {}", *segment.vlan);
}

// An interface of the segment, as a hint for what to make.
std::string wanted_interface(const Segment& segment) {
  return segment.pkey ? fmt::format("an IPoIB interface of it, like ib0.{:04x}", *segment.pkey)
                      : fmt::format("an interface of it, like eth0.{}", *segment.vlan);
}

bool is_link_local(const std::string& address) {
  return address.starts_with("fe80:") || address.starts_with("169.254.");
}

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> machine_addresses() {
  std::vector<std::pair<std::string, std::string>> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return out;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, &freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    if (std::string text = text_of(i->ifa_addr); !text.empty()) out.emplace_back(i->ifa_name, std::move(text));
  }
  return out;
}

}  // namespace

Interfaces Interfaces::of_machine() { return {.sys = "/sys", .addresses = machine_addresses, .vlan = vlan_of}; }

std::optional<uint16_t> vlan_of(const std::string& interface) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  vlan_ioctl_args asked{};
  asked.cmd = GET_VLAN_VID_CMD;
  if (!socket || interface.size() >= sizeof asked.device1) return std::nullopt;
  std::memcpy(asked.device1, interface.data(), interface.size());
  if (::ioctl(socket.get(), SIOCGIFVLAN, &asked) != 0) return std::nullopt;
  return static_cast<uint16_t>(asked.u.VID);
}

std::expected<void, std::string> check_segment(const Segment& segment, const SegmentDevice& device,
                                               const std::string& address, const Interfaces& machine) {
  if (segment.pkey) {
    if (auto member = check_member(*segment.pkey, device, machine.sys); !member) return member;
  }
  const auto all = machine.addresses();
  const auto owner = std::ranges::find(all, address, &std::pair<std::string, std::string>::second);
  const std::string shown_address = log::printable(address, 64);
  if (owner == all.end()) {
    return std::unexpected(fmt::format("{}: no interface has the address {}", key_of(segment), shown_address));
  }
  const std::string why = mismatch(segment, owner->first, machine);
  if (why.empty()) return {};
  return std::unexpected(fmt::format("{}: {} has the address {} and {}: choose the address of {}", key_of(segment),
                                     owner->first, shown_address, why, wanted_interface(segment)));
}

std::expected<std::string, std::string> segment_address(const Segment& segment, const SegmentDevice& device,
                                                        const Interfaces& machine) {
  if (segment.pkey) {
    if (auto member = check_member(*segment.pkey, device, machine.sys); !member) {
      return std::unexpected(member.error());
    }
  }
  std::string found;
  for (const auto& [interface, address] : machine.addresses()) {
    if (is_link_local(address) || !mismatch(segment, interface, machine).empty()) continue;
    if (!is_of_device(interface, device, machine.sys)) continue;
    const bool v4 = address.find(':') == std::string::npos;
    if (found.empty() || (v4 && found.find(':') != std::string::npos)) found = address;
  }
  if (!found.empty()) return found;
  return std::unexpected(fmt::format("{}: {}: no interface of it has an IP address: make {}, and give it one",
                                     key_of(segment), name_of(device), wanted_interface(segment)));
}

}  // namespace verbena::fabric::ofi
