// The part of SHA-256 that is OpenSSL's. Internal to this room.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena {

// Adds whole blocks of 64 bytes to the hash's state between two blocks.
void add_sha256_blocks(std::array<uint32_t, 8>& state, const std::byte* from, size_t blocks);

}  // namespace verbena
