// What the log says at the start about the encryption of RDMA.
#pragma once

#include <string>
#include <string_view>

#include "admin/doctor.h"
#include "base/config.h"

namespace verbena::server {

// What rdma.encryption means here, and which payload leaves the host in the clear; where RDMA may be sealed, also what
// of the processor and below each RDMA device encrypts. They are findings of `verbena doctor`, a line each; empty where
// RDMA is off. `provider`: the one of libfabric that is open; empty: none. Asks the kernel, so it blocks for some
// milliseconds.
admin::Findings encryption_findings(const Config& config, std::string_view provider,
                                    const admin::MachineRoots& roots = {});

// "ciphers of sealed RDMA: aes-256-gcm is used, by AES-NI", with what it means behind it. Printable, of bounded length.
std::string line_of(const admin::Finding& finding);

// Writes them.
void tell_encryption(const Config& config, std::string_view provider);

}  // namespace verbena::server
