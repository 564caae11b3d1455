#include "admin/psp.h"

#include <fmt/ranges.h>
#include <linux/genetlink.h>
#include <net/if.h>

#include <span>

namespace verbena::admin {
namespace {

// From the kernel's Documentation/netlink/specs/psp.yaml: no header of Debian has them yet.
constexpr uint8_t psp_dev_get = 1;
constexpr int psp_ifindex = 2, psp_versions_enabled = 4;

constexpr size_t psp_devices_max = 1000;

std::string interface_name(uint32_t index) {
  std::array<char, IF_NAMESIZE> name{};
  return ::if_indextoname(index, name.data()) != nullptr ? std::string(name.data()) : "device " + std::to_string(index);
}

}  // namespace

Dump read_psp_devices(Bytes messages, uint16_t family, std::vector<PspDevice>& into) {
  return each_message<genlmsghdr>(messages, family, [&](const genlmsghdr&, Bytes attributes) {
    if (into.size() == psp_devices_max) return false;
    std::optional<uint32_t> index, enabled;
    each_attribute(attributes, [&](int type, Bytes body) {
      if (type == psp_ifindex) index = number_in<uint32_t>(body);
      if (type == psp_versions_enabled) enabled = number_in<uint32_t>(body);
    });
    if (!index || !enabled) return false;
    into.push_back({.interface = interface_name(*index), .on = *enabled != 0});
    return true;
  });
}

Psp ask_for_psp() {
  const auto family = netlink_family("psp");
  if (!family) return {};
  if (*family == 0) return {.in_kernel = false, .devices = std::nullopt};
  const genlmsghdr request{.cmd = psp_dev_get, .version = 1, .reserved = 0};
  const auto read = [&](Bytes messages, std::vector<PspDevice>& into) {
    return read_psp_devices(messages, *family, into);
  };
  return {.in_kernel = true,
          .devices = dump_of<PspDevice>(NETLINK_GENERIC, *family, std::as_bytes(std::span(&request, 1)), read)};
}

std::string describe(const Psp& psp) {
  if (!psp.in_kernel) return "cannot be told";
  if (!*psp.in_kernel) return "absent from this kernel";
  if (!psp.devices) return "the kernel has it; which devices have it cannot be told";
  if (psp.devices->empty()) return "absent: the kernel has it, but no network device";
  std::vector<std::string> names;
  for (const PspDevice& one : *psp.devices) names.push_back(one.interface + (one.on ? " (on)" : " (off)"));
  return fmt::format("present: {}", fmt::join(names, ", "));
}

}  // namespace verbena::admin
