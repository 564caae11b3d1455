// dpu.*: a server on the cores of a data processing unit (DPU). What is asked for and cannot be is an error that names
// the cause.
#pragma once

#include <expected>
#include <filesystem>
#include <string>
#include <vector>

#include "base/config.h"

namespace verbena::server {

// What the machine says of itself.
struct MachineName {
  std::string device_tree;  // its model and what it is compatible with; empty: there is no device tree
  std::string dmi;          // vendor and product; empty: there is no DMI
  bool is_dpu = false;      // either names a DPU that is known
};

// Reads `root`/sys and `root`/proc.
MachineName machine_name(const std::filesystem::path& root = "/");

// Before anything is opened: whether the machine is what dpu.* say. The text for the log; empty: dpu.enabled is false.
std::expected<std::string, std::string> check_dpu(const Config::Dpu& dpu, const MachineName& machine);

// When fabrics are open: whether dpu.enable_rdma is met by `providers`, the native door's.
std::expected<void, std::string> check_dpu_rdma(const Config::Dpu& dpu, const std::vector<std::string>& providers);

}  // namespace verbena::server
