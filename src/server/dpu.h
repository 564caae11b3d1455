// dpu.*: a server on the cores of a data processing unit (DPU). What is asked for and cannot be is an error that names
// the cause.
#pragma once

#include <expected>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/aead.h"
#include "base/config.h"

namespace verbena::server {

// Before anything is opened: whether the machine is what dpu.* say, by `root`/sys and `root`/proc. The text for the
// log; empty: dpu.enabled is false, and nothing was read. `has_aes`: the processor has AES instructions.
std::expected<std::string, std::string> check_dpu(const Config::Dpu& dpu, const std::filesystem::path& root = "/",
                                                  bool has_aes = fastest_aead() == AeadKind::aes_256_gcm);

// When fabrics are open: whether dpu.enable_rdma is met by the native door's provider between hosts and its device
// (both empty: none is open). The text for the log; empty: it is not asked for.
std::expected<std::string, std::string> check_dpu_rdma(const Config::Dpu& dpu, std::string_view provider,
                                                       std::string_view device);

}  // namespace verbena::server
