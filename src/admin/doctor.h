// What `verbena doctor` looks at: each check reads the machine and says what it found and what mends it. A running
// server asks the same of itself (`verbena admin doctor`, the console). Blocks; no program is started.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "fabric/ofi/ofi.h"

namespace verbena::admin {

enum class Health : uint8_t { ok, warn, fail };
std::string_view to_string(Health health);

struct Finding {
  Health health = Health::ok;
  std::string subject;       // "providers", "rdma device mlx5_0"
  std::string found;         // one line
  std::string mend;          // a sentence; empty when there is nothing to do
  std::string command = {};  // what to type for it, where one line does; for a shell as it is
};
using Findings = std::vector<Finding>;
void append(Findings& to, Findings more);

// Where the kernel tells about itself; tests point it at a folder of their own.
struct MachineRoots {
  std::filesystem::path sys = "/sys";
  std::filesystem::path proc = "/proc";
  std::filesystem::path run = "/run";
};

// The first line of a small kernel file; empty when it cannot be read.
std::string line_of(const std::filesystem::path& path);

struct ArenaUse {
  uint64_t bytes = 256 * MiB;  // what it takes unless it is told otherwise
  bool running = false;        // it is there already
  bool huge_pages = false;     // and lies in huge pages
};

Findings check_providers(const std::vector<fabric::ofi::ProviderInfo>& providers);
Findings check_devices(const MachineRoots& roots);
Findings check_firewall(const MachineRoots& roots);
Findings check_memory(const MachineRoots& roots, const ArenaUse& arena = {});
Findings check_limits();
Findings check_io_uring(const MachineRoots& roots);
Findings check_kernel(const MachineRoots& roots);
// Whether something keeps the machine's clock: signatures are good for a quarter of an hour.
Findings check_clock(const MachineRoots& roots);

// The room of a file system; `inodes` 0: it counts none.
struct DiskRoom {
  uint64_t bytes = 0, free_bytes = 0;
  uint64_t inodes = 0, free_inodes = 0;
};
// Of the file system that `path` is on. `subject`: "disk of the data".
Finding check_disk(const std::string& subject, const std::filesystem::path& path);
Finding judge_disk(const std::string& subject, const std::filesystem::path& path, const DiskRoom& room);
// Files that this process has open, of those that it may.
Findings check_open_files(const MachineRoots& roots);

// What can be said of a machine before there is a server. `fabrics`: whether libfabric is asked what it sees.
Findings examine_machine(const MachineRoots& roots, const ArenaUse& arena = {}, bool fabrics = true);
// And what a running server can say of itself.
struct ServerPlaces {
  ArenaUse arena;
  std::filesystem::path data, access_log;  // empty: there is none
  bool rdma = true;                        // rdma.enabled
};
Findings examine_server(const ServerPlaces& places);

}  // namespace verbena::admin
