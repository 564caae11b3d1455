// The checks of `verbena doctor`: each examines the machine and reports a finding and its remedy. A running server runs
// them on itself (`verbena admin doctor`, the console). Blocks; starts no program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "admin/mlx5_crypto.h"
#include "base/aead.h"
#include "base/bytes.h"
#include "base/config.h"
#include "fabric/ofi/ofi.h"
#include "rdma/dc/device.h"

namespace verbena::store::local {
class File;
}

namespace verbena::admin {

enum class Health : uint8_t { ok, warn, fail };
std::string_view to_string(Health health);

struct Finding {
  Health health = Health::ok;
  std::string subject;       // "providers", "rdma device mlx5_0"
  std::string found;         // one line
  std::string mend;          // a sentence; empty if there is nothing to do
  std::string command = {};  // the remedy's command, if it is one line; valid for a shell
};
using Findings = std::vector<Finding>;
void append(Findings& to, Findings more);

// Folders of the kernel's files, and the library by which mlx5 devices tell of themselves; tests use their own.
struct MachineRoots {
  std::filesystem::path sys = "/sys";
  std::filesystem::path proc = "/proc";
  std::filesystem::path run = "/run";
  std::filesystem::path dev = "/dev";
  std::string mlx5 = mlx5_library;
};

struct ArenaUse {
  uint64_t bytes = 256 * MiB;  // its default size
  bool running = false;        // the arena exists already
  bool huge_pages = false;     // and uses huge pages
};

Findings check_providers(const std::vector<fabric::ofi::ProviderInfo>& providers);
// Dynamically connected queue pairs of each RDMA device, which cuObject's descriptors need.
Findings judge_dc(const std::vector<rdma::dc::DeviceSupport>& devices);
Findings check_devices(const MachineRoots& roots);
Findings check_firewall(const MachineRoots& roots);
Findings check_memory(const MachineRoots& roots, const ArenaUse& arena = {});
Findings check_limits();
Findings check_io_uring(const MachineRoots& roots);
Findings check_kernel(const MachineRoots& roots);
// GPUs, and the ways to their memory. Loads and initializes their driver: not for a server.
Findings check_gpus(const MachineRoots& roots);
// What encrypts packets below Verbena, of the processor and of each RDMA device: present, absent or not to be told.
Findings check_encryption(const MachineRoots& roots);
// A processor with these AES instructions (empty: none), and the library that does not use its VAES (empty: it does, or
// there is none).
Finding judge_processor(const std::string& aes_instructions, const std::string& leaves_vaes_unused);
// The ciphers of sealed RDMA on a processor with these AES instructions (empty: none), of which `used` is the faster
// one.
Finding judge_ciphers(const std::string& aes_instructions, AeadKind used, bool has_chacha);
// What the configuration encrypts, and which payload leaves the host in the clear: first by rdma.encryption, then for
// each entry of `listeners` that has a rule of its own. Empty where RDMA is off.
Findings check_sealing(const Config& config);
// Whether a service keeps the machine's clock right: signatures are valid for a quarter of an hour.
Findings check_clock(const MachineRoots& roots);

// Free space of a file system; `inodes` 0: it counts none.
struct DiskRoom {
  uint64_t bytes = 0, free_bytes = 0;
  uint64_t inodes = 0, free_inodes = 0;
};
// The file system that contains `path`. `subject`: "disk of the data".
Finding check_disk(const std::string& subject, const std::filesystem::path& path);
Finding judge_disk(const std::string& subject, const std::filesystem::path& path, const DiskRoom& room);
// Whether the file system that contains `data` keeps what was synced; empty: it is not ext4.
Findings check_file_system(const MachineRoots& roots, const std::filesystem::path& data);
Finding judge_ext4(const std::filesystem::path& device);
// The block device that has, or may get, the volumes (data.device).
Finding check_device(const std::filesystem::path& device);
Finding judge_device(const std::string& name, std::unique_ptr<store::local::File> device);
// Devices of persistent memory; and whether this folder (by a file that is made and removed) or device-dax node
// (data.pmem) can be used.
Findings check_pmem_devices(const MachineRoots& roots);
Finding check_pmem(const std::filesystem::path& where);
// This process's open files, and their limit.
Findings check_open_files(const MachineRoots& roots);

// Checks of a machine without a server. `fabrics`: also asks libfabric for providers.
Findings examine_machine(const MachineRoots& roots, const ArenaUse& arena = {}, bool fabrics = true);
// Paths and configuration for the checks of a running server.
struct ServerPlaces {
  ArenaUse arena;
  std::filesystem::path data, device, access_log, pmem;  // empty: none
  Config config;
};
Findings examine_server(const ServerPlaces& places);

}  // namespace verbena::admin
