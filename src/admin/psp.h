// PSP of the kernel: encryption of TCP connections by network devices. Asks by generic netlink, without rights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "admin/netlink.h"

namespace verbena::admin {

// A network device with PSP.
struct PspDevice {
  std::string interface;
  bool on = false;  // it takes packets of some version of PSP
  bool operator==(const PspDevice&) const = default;
};

struct Psp {
  std::optional<bool> in_kernel;                  // nullopt: the kernel does not say
  std::optional<std::vector<PspDevice>> devices;  // nullopt: likewise, or the kernel has none
};
Psp ask_for_psp();

// Answers of the kernel to a dump of devices, as netlink carries them; `family`: PSP's. Appends what they say. Any
// bytes may come.
Dump read_psp_devices(Bytes messages, uint16_t family, std::vector<PspDevice>& into);

// "present: eth0 (on)", "absent from this kernel".
std::string describe(const Psp& psp);

}  // namespace verbena::admin
