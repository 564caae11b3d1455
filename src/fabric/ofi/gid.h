// device_name, ib_port and gid_index: libfabric's verbs provider takes its address from rdma_cm, so these keys select
// a GID in sysfs, and the IP address of that GID's network interface becomes the source address.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"

namespace verbena::fabric::ofi {

struct GidChoice {
  std::string device;  // "" : the first device that has a usable GID
  int port = 1;
  std::optional<unsigned> index;  // nullopt: the first usable one, RoCE v2 over IPv4 preferred
};

// Text of the source address. bad_config when the GID does not exist or its interface has no IP address (InfiniBand
// needs IPoIB, RoCE an IP-based GID); a log line has the reason.
Result<std::string> gid_source_address(const GidChoice& choice,
                                       const std::filesystem::path& sysfs = "/sys/class/infiniband");

// Whether it is an iWARP device: its RDMA READ needs a target that the peer may write to.
bool is_iwarp(const std::string& device, const std::filesystem::path& sysfs = "/sys/class/infiniband");

}  // namespace verbena::fabric::ofi
