// What encrypts packets below the server: features of network devices, IPsec's associations and policies; and the
// processor's instructions. Asks the kernel by ioctl (ethtool) and netlink; needs no program and no library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/netlink.h"
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
  Offload ipsec = Offload::unknown;   // esp-hw-offload: of ESP's cipher, and perhaps of whole packets
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

// Answers of the kernel to a dump of associations: messages as netlink carries them. Appends what they say. Any bytes
// may come.
Dump read_associations(Bytes messages, std::vector<IpsecAssociation>& into);

// What a policy says of the packets between its addresses.
enum class Coverage : uint8_t {
  none,      // they may go readable
  in_doubt,  // ESP may end before the peer (a tunnel), or the policy is for some packets alone: of a mark, an
             // interface, a user or a security label
  all,       // each must be encrypted up to the peer
};

// An IPsec policy of this host's kernel: for which packets associations are used.
struct IpsecPolicy {
  std::string device;     // with an offload: the network device
  bool packet = false;    // packet offload, which sees RDMA packets, too
  bool sends = false;     // of packets that leave
  bool receives = false;  // of packets that come
  Coverage coverage = Coverage::none;
  std::string from, to;  // networks, "10.0.0.0/16"
  bool all_ports = false;
  uint8_t protocol = 0;  // of IP; 0: all
};
// nullopt: as of ipsec_associations().
std::optional<std::vector<IpsecPolicy>> ipsec_policies();
// Like read_associations().
Dump read_policies(Bytes messages, std::vector<IpsecPolicy>& into);
// Paths on which a network device encrypts packets of this host, RDMA's too, both ways: "10.0.0.1/32 to 10.0.0.2/32".
// Those are pairs of policies in packet offload there. Policies of higher priority may make exceptions.
struct EncryptedPaths {
  std::vector<std::string> all;       // all packets, up to the peer
  std::vector<std::string> in_doubt;  // perhaps
  bool operator==(const EncryptedPaths&) const = default;
};
EncryptedPaths encrypted_paths(const std::vector<IpsecPolicy>& policies, const std::string& interface);
// "10.0.0.1/32 to 10.0.0.2/32", "cannot be told of 10.1.0.0/16 to 10.2.0.0/16", "none".
std::string describe(const EncryptedPaths& paths);

// This processor's instructions for AES that sealed RDMA and encrypted objects use, and by which library: "AES-NI, VAES
// (ipsec-mb 1.3.0)", "ARMv8 AES (OpenSSL 3.0.19)"; empty: none.
std::string aes_instructions();
// "OpenSSL 3.0.19", if that, which TLS uses, leaves VAES unused that this processor has; empty: it does not.
std::string leaves_vaes_unused();

}  // namespace verbena::admin
