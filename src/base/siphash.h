// SipHash (Aumasson, Bernstein 2012), 64-bit: a keyed hash of short input. siphash24() of checksum.h is the MAC of
// messages; siphash13() is for tables whose keys clients choose.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"

namespace verbena {

// `compression` rounds for each 8 bytes, `finalization` at the end.
template <int compression, int finalization>
inline uint64_t siphash(const std::byte (&key)[16], Bytes data) {
  const auto word = [](const std::byte* at) {
    uint64_t value;
    std::memcpy(&value, at, sizeof value);
    return std::endian::native == std::endian::little ? value : std::byteswap(value);
  };
  const uint64_t k0 = word(key);
  const uint64_t k1 = word(key + 8);
  uint64_t v0 = k0 ^ 0x736f6d6570736575;
  uint64_t v1 = k1 ^ 0x646f72616e646f6d;
  uint64_t v2 = k0 ^ 0x6c7967656e657261;
  uint64_t v3 = k1 ^ 0x7465646279746573;
  auto round = [&] {
    v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
    v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
  };
  auto absorb = [&](uint64_t m) {
    v3 ^= m;
    for (int n = 0; n < compression; ++n) round();
    v0 ^= m;
  };
  size_t i = 0;
  for (; i + 8 <= data.size(); i += 8) absorb(word(data.data() + i));
  uint64_t last = static_cast<uint64_t>(data.size()) << 56;
  const size_t rest = data.size() - i;
  if (rest != 0 && data.size() >= 8) {
    last |= word(data.data() + data.size() - 8) >> (8 * (8 - rest));
  } else {
    for (size_t j = 0; j < rest; ++j) last |= static_cast<uint64_t>(data[i + j]) << (8 * j);
  }
  absorb(last);
  v2 ^= 0xff;
  for (int n = 0; n < finalization; ++n) round();
  return v0 ^ v1 ^ v2 ^ v3;
}

inline uint64_t siphash13(const std::byte (&key)[16], Bytes data) { return siphash<1, 3>(key, data); }

}  // namespace verbena
