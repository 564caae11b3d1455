// CRC64NVME by carry-less multiplication, on processors that have it. Private to checksum.
#pragma once

#include "base/bytes.h"

namespace verbena {

// Folding is faster from this many bytes on.
inline constexpr size_t crc64_fold_size_min = 256;

// Whether this processor supports it.
bool crc64_can_fold();

// Replaces the 64-byte blocks that `data` begins with by 16 bytes of the same CRC: the register after them is that
// after `folded`, begun at zero. `state` is the register before them (not inverted). Returns the bytes replaced.
// data.size() must be at least 64.
size_t crc64_fold(uint64_t state, Bytes data, std::byte (&folded)[16]);

}  // namespace verbena
