// What encrypts packets below the server: features of network devices, IPsec associations, PSP. Asks the kernel by
// ioctl (ethtool) and netlink; needs no program and no library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace verbena::admin {

enum class Offload : uint8_t {
  absent,   // the device or its driver cannot
  off,      // it can, and does not
  on,       // it does
  unknown,  // the kernel does not say
};
std::string_view to_string(Offload offload);

// Of one network device, as `ethtool -k` shows them.
struct LinkFeatures {
  Offload ipsec = Offload::unknown;   // esp-hw-offload
  Offload macsec = Offload::unknown;  // macsec-hw-offload
};
LinkFeatures link_features(const std::string& interface);

// An IPsec security association of this host's kernel.
struct IpsecAssociation {
  std::string device;       // with an offload: the network device
  bool packet = false;      // packet offload: the device does all of it, for RDMA packets, too
  uint32_t identifier = 0;  // SPI
};
// nullopt: this process may not ask (CAP_NET_ADMIN), or the kernel has no IPsec.
std::optional<std::vector<IpsecAssociation>> ipsec_associations();

// Answers of the kernel to a dump of associations: messages as netlink carries them. Appends what they say; false: the
// last message is there, or one cannot be read. Any bytes may come.
bool read_associations(Bytes messages, std::vector<IpsecAssociation>& into);

// Whether the kernel has the family "psp" of generic netlink.
std::optional<bool> kernel_has_psp();

// This processor's instructions for AES-GCM: "AES-NI, VAES", "ARMv8 AES"; empty: none.
std::string aes_instructions();

}  // namespace verbena::admin
