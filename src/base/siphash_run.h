// siphash13() of texts of one length that lie one after the other: side by side where the processor has AVX-512 (eight)
// or AVX2 (four).
#pragma once

#include <span>

#include "base/siphash.h"

namespace verbena {

// The hash of each of the texts of `size` bytes, as many as `hashes`. Their first `shared` bytes are the same in all.
void siphash13_run(const std::byte (&key)[16], Bytes texts, size_t size, size_t shared, std::span<uint64_t> hashes);

}  // namespace verbena
