#include "fabric/ofi/gid.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netpacket/packet.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstdio>
#include <vector>

#include "base/kernel_files.h"
#include "base/log.h"

namespace verbena::fabric::ofi {
namespace {

namespace fs = std::filesystem;
namespace ip = boost::asio::ip;

constexpr unsigned gid_table_max = 1024;

// The first address of a network interface that is not link-local, IPv4 before IPv6.
std::string interface_address(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (interface.empty() || getifaddrs(&list) != 0) return {};
  std::string v4, v6;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || interface != i->ifa_name) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (i->ifa_addr->sa_family == AF_INET && v4.empty()) {
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
      v4 = text;
    } else if (i->ifa_addr->sa_family == AF_INET6 && v6.empty()) {
      const auto& address = reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
      inet_ntop(AF_INET6, &address, text, sizeof text);
      v6 = text;
    }
  }
  freeifaddrs(list);
  return v4.empty() ? v6 : v4;
}

// The network interface of an iWARP device: its one GID begins with the interface's hardware address, and sysfs does
// not name the interface.
std::string interface_of_iwarp(const ip::address_v6::bytes_type& gid) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::string interface;
  for (const ifaddrs* i = list; i != nullptr && interface.empty(); i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_PACKET) continue;
    const auto& link = *reinterpret_cast<const sockaddr_ll*>(i->ifa_addr);
    if (link.sll_halen == 6 && std::equal(link.sll_addr, link.sll_addr + 6, gid.begin())) interface = i->ifa_name;
  }
  freeifaddrs(list);
  return interface;
}

struct Gid {
  unsigned index = 0;
  std::string address;  // usable as a source; empty: not
  bool preferred = false;
};

std::optional<Gid> read_gid(const fs::path& port, unsigned index, bool iwarp) {
  const std::string number = std::to_string(index);
  boost::system::error_code error;
  const auto gid = ip::make_address_v6(first_line(port / "gids" / number), error);
  if (error || gid.is_unspecified()) return std::nullopt;
  Gid found{.index = index, .address = {}, .preferred = false};
  if (iwarp) {
    found.address = interface_address(interface_of_iwarp(gid.to_bytes()));
  } else if (gid.is_v4_mapped()) {
    found.address = ip::make_address_v4(ip::v4_mapped, gid).to_string();
    found.preferred = first_line(port / "gid_attrs" / "types" / number).find("v2") != std::string::npos;
  } else if (gid.is_link_local() || (gid.to_bytes()[0] == 0xfe && gid.to_bytes()[1] == 0x80)) {
    found.address = interface_address(first_line(port / "gid_attrs" / "ndevs" / number));
  } else if (interface_address(first_line(port / "gid_attrs" / "ndevs" / number)).empty()) {
    found.address = {};
  } else {
    found.address = gid.to_string();
  }
  return found;
}

// The best GID of one port, or the requested one.
std::optional<Gid> pick(const fs::path& port, std::optional<unsigned> index, bool iwarp) {
  if (index) return read_gid(port, *index, iwarp);
  std::vector<unsigned> indices;
  for (const std::string& name : entries_of(port / "gids")) {
    unsigned value = 0;
    if (std::sscanf(name.c_str(), "%u", &value) == 1 && value < gid_table_max) indices.push_back(value);
  }
  std::sort(indices.begin(), indices.end());
  std::optional<Gid> best;
  for (const unsigned i : indices) {
    const auto gid = read_gid(port, i, iwarp);
    if (!gid || gid->address.empty()) continue;
    if (gid->preferred) return gid;
    if (!best) best = gid;
  }
  return best;
}

}  // namespace

Result<std::string> gid_source_address(const GidChoice& choice, const fs::path& sysfs) {
  std::error_code error;
  std::vector<std::string> devices;
  if (!choice.device.empty()) {
    // The name becomes a path component.
    if (choice.device.find('/') != std::string::npos || !fs::is_directory(sysfs / choice.device, error)) {
      log::error("fabric: rdma.device_name: no RDMA device {} here", log::printable(choice.device));
      return fail(Errc::bad_config, "rdma.device_name: no such RDMA device");
    }
    devices.push_back(choice.device);
  } else {
    devices = entries_of(sysfs);
  }
  if (devices.empty()) return fail(Errc::bad_config, "rdma: this machine has no RDMA device");
  for (const auto& device : devices) {
    const auto port = sysfs / device / "ports" / std::to_string(choice.port);
    if (!fs::is_directory(port, error)) continue;
    const auto gid = pick(port, choice.index, is_iwarp(device, sysfs));
    if (gid && !gid->address.empty()) return gid->address;
    if (gid) {
      log::error("fabric: GID {} of {} port {}: its interface has no IP address (link layer {})", gid->index, device,
                 choice.port, first_line(port / "link_layer"));
    }
  }
  log::error("fabric: no usable GID: InfiniBand needs IPoIB (an IP address on ib0), RoCE needs an IP-based GID");
  return fail(Errc::bad_config, "rdma.gid_index: no GID whose interface has an IP address");
}

bool is_iwarp(const std::string& device, const fs::path& sysfs) {
  if (device.empty() || device.find('/') != std::string::npos) return false;
  return first_line(sysfs / device / "node_type").find("RNIC") != std::string::npos;
}

}  // namespace verbena::fabric::ofi
