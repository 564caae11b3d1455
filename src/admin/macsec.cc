#include "admin/macsec.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <span>
#include <string_view>

#include "admin/netlink.h"

namespace verbena::admin {
namespace {

constexpr std::string_view macsec_kind = "macsec";

bool is_set(Bytes attribute) { return number_in<uint8_t>(attribute) == 1; }

// The settings in an interface's description of its kind.
std::optional<MacsecLink> read_link_info(Bytes described) {
  bool is_macsec = false;
  Bytes settings;
  each_attribute(described, [&](int type, Bytes body) {
    if (type == IFLA_INFO_DATA) settings = body;
    if (type != IFLA_INFO_KIND) return;
    const std::string_view kind(reinterpret_cast<const char*>(body.data()), body.size());
    is_macsec = kind.substr(0, kind.find('\0')) == macsec_kind;
  });
  if (!is_macsec) return std::nullopt;
  MacsecLink link;
  bool encrypts = false, protects = false;
  each_attribute(settings, [&](int type, Bytes body) {
    if (type == IFLA_MACSEC_ENCRYPT) encrypts = is_set(body);
    if (type == IFLA_MACSEC_PROTECT) protects = is_set(body);
    if (type != IFLA_MACSEC_OFFLOAD || body.size() != 1) return;
    link.by = body[0] == std::byte{0} ? MacsecLink::By::kernel : MacsecLink::By::device;
  });
  link.encrypts = encrypts && protects;
  return link;
}

}  // namespace

std::optional<MacsecLink> read_macsec_link(Bytes answer) {
  std::optional<MacsecLink> found;
  each_message<ifinfomsg>(answer, RTM_NEWLINK, [&](const ifinfomsg&, Bytes attributes) {
    each_attribute(attributes, [&](int type, Bytes body) {
      if (type == IFLA_LINKINFO) found = read_link_info(body);
    });
    return true;
  });
  return found;
}

std::optional<MacsecLink> macsec_link(const std::string& interface) {
  ifinfomsg info{};
  info.ifi_family = AF_UNSPEC;
  info.ifi_index = static_cast<int>(::if_nametoindex(interface.c_str()));
  if (info.ifi_index == 0) return std::nullopt;
  Netlink netlink(NETLINK_ROUTE);
  if (!netlink.send(RTM_GETLINK, 0, std::as_bytes(std::span(&info, 1)))) return std::nullopt;
  return read_macsec_link(netlink.receive());
}

std::string describe(const std::optional<MacsecLink>& link) {
  if (!link) return "settings cannot be told";
  if (!link->encrypts) return "does not encrypt";
  switch (link->by) {
    case MacsecLink::By::kernel:
      return "encrypts, by the kernel";
    case MacsecLink::By::device:
      return "encrypts, by the network device";
    case MacsecLink::By::unknown:
      break;
  }
  return "encrypts; whether by the kernel or the network device cannot be told";
}

}  // namespace verbena::admin
