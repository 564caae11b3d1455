// What `verbena doctor` looks at: each check reads the machine and says what it found and what mends it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/ofi/ofi.h"

namespace verbena::cli {

enum class Health : uint8_t { ok, warn, fail };
std::string_view to_string(Health health);

struct Finding {
  Health health = Health::ok;
  std::string subject;  // "providers", "rdma device mlx5_0"
  std::string found;    // one line
  std::string mend;     // a command or a sentence; empty when there is nothing to do
};
using Findings = std::vector<Finding>;

// Where the kernel tells about itself; tests point it at a folder of their own.
struct MachineRoots {
  std::filesystem::path sys = "/sys";
  std::filesystem::path proc = "/proc";
  std::filesystem::path run = "/run";
};

Findings check_providers(const std::vector<fabric::ofi::ProviderInfo>& providers);
Findings check_devices(const MachineRoots& roots);
Findings check_firewall(const MachineRoots& roots);
Findings check_memory(const MachineRoots& roots);
Findings check_limits();
Findings check_io_uring(const MachineRoots& roots);
// What systemd says of the service, explained; explain_unit() of what `systemctl show` printed.
Findings check_systemd(const MachineRoots& roots);
Findings explain_unit(const std::string& properties_text);
// `endpoint`: "http://host:port", whose server may answer; `native`: "host:port".
Findings check_ports(const std::string& endpoint, const std::string& native);

}  // namespace verbena::cli
