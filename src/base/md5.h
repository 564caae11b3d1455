// MD5 (RFC 1321) of several bodies side by side, one in each lane of the vector unit. The algorithm is one long chain
// of dependent steps, so a body alone leaves most of a core idle; S3's entity tags are MD5s, and servers receive many
// bodies at once. For one body alone use Digest (checksum.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace verbena {

class Md5 {
 public:
  static constexpr size_t digest_size = 16, block_size = 64;

  // The number of bodies side by side: 8 with AVX2 or AVX-512, 4 on every x86-64 and aarch64; one, without vectors.
  enum class Lanes : uint8_t { one, four, eight, eight_of_avx512 };
  static Lanes lanes_here();  // the best of this processor
  static constexpr size_t lanes_max = 8;

  // Further bytes of a digest's body.
  struct More {
    Md5* digest;  // each at most once in a list
    Bytes bytes;
  };
  static void update_all(std::span<const More> list, Lanes lanes = lanes_here());

  void update(Bytes bytes);
  std::array<std::byte, digest_size> finish();  // ends it

 private:
  friend class Md5Lanes;
  friend class RunningSha256;         // adds blocks to both (running_sha256.h)
  Bytes complete_block(Bytes bytes);  // returns the remaining bytes
  void keep(Bytes rest);              // less than a block, nothing kept before

  std::array<uint32_t, 4> state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  uint64_t size_ = 0;  // of all that came
  std::array<std::byte, block_size> kept_{};
};

}  // namespace verbena
