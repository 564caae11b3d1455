// SipHash (Aumasson, Bernstein 2012), 64-bit: a keyed hash of short input. siphash24() of checksum.h is the MAC of
// messages; siphash13() is for tables whose keys clients choose.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"

namespace verbena {

// `compression` rounds for each 8 bytes, `finalization` at the end. A copy goes on from what it has absorbed.
template <int compression, int finalization>
class SipHash {
 public:
  explicit SipHash(const std::byte (&key)[16]) {
    const uint64_t k0 = word(key);
    const uint64_t k1 = word(key + 8);
    v0_ = k0 ^ 0x736f6d6570736575;
    v1_ = k1 ^ 0x646f72616e646f6d;
    v2_ = k0 ^ 0x6c7967656e657261;
    v3_ = k1 ^ 0x7465646279746573;
  }

  // A multiple of 8 bytes.
  void absorb(Bytes words) {
    for (size_t i = 0; i + 8 <= words.size(); i += 8) absorb(word(words.data() + i));
  }

  std::array<uint64_t, 4> state() const { return {v0_, v1_, v2_, v3_}; }

  // The hash of all that was absorbed and the rest, `size` bytes together.
  uint64_t finish(Bytes rest, size_t size) {
    const size_t whole = rest.size() / 8 * 8, behind = rest.size() - whole;
    absorb(rest.first(whole));
    uint64_t last = static_cast<uint64_t>(size) << 56;
    if (behind != 0 && whole != 0) {
      last |= word(rest.data() + rest.size() - 8) >> (8 * (8 - behind));
    } else {
      for (size_t i = 0; i < behind; ++i) last |= static_cast<uint64_t>(rest[whole + i]) << (8 * i);
    }
    absorb(last);
    v2_ ^= 0xff;
    for (int n = 0; n < finalization; ++n) round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  static uint64_t word(const std::byte* at) {
    uint64_t value;
    std::memcpy(&value, at, sizeof value);
    return std::endian::native == std::endian::little ? value : std::byteswap(value);
  }
  void round() {
    v0_ += v1_, v1_ = std::rotl(v1_, 13) ^ v0_, v0_ = std::rotl(v0_, 32);
    v2_ += v3_, v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_, v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_, v1_ = std::rotl(v1_, 17) ^ v2_, v2_ = std::rotl(v2_, 32);
  }
  void absorb(uint64_t m) {
    v3_ ^= m;
    for (int n = 0; n < compression; ++n) round();
    v0_ ^= m;
  }

  uint64_t v0_, v1_, v2_, v3_;
};

template <int compression, int finalization>
inline uint64_t siphash(const std::byte (&key)[16], Bytes data) {
  return SipHash<compression, finalization>(key).finish(data, data.size());
}

inline uint64_t siphash13(const std::byte (&key)[16], Bytes data) { return siphash<1, 3>(key, data); }

}  // namespace verbena
