// What an mlx5 device tells of its own engine for AES-XTS, by its own library (libmlx5 of rdma-core). The kernel has no
// file and no other question for it.
#pragma once

#include <string>

namespace verbena::admin {

inline constexpr const char* mlx5_library = "libmlx5.so.1";

// Whether this RDMA device encrypts blocks on their way by keys that it keeps (DEK objects): "present", "present, for
// wrapped keys alone", "absent", "cannot be told (why)". Opens the device for a moment, as any user of it does; loads
// `library`, which libibverbs has loaded already where such a device is in use.
std::string inline_aes_xts(const std::string& device, const char* library = mlx5_library);

}  // namespace verbena::admin
