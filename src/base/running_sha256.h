// SHA-256 of a body that arrives in pieces, alone or with its MD5: a PUT with a signed payload needs both. Each step of
// MD5 waits for the one before, so a core that computes it alone is mostly idle; where the processor has instructions
// for SHA-256, the two in one pass take as long as MD5 alone (`micro_bench --benchmark_filter=sha256_and_md5`).
#pragma once

#include <array>
#include <cstdint>

#include "base/hmac.h"
#include "base/md5.h"

namespace verbena {

class RunningSha256 {
 public:
  void update(Bytes bytes);
  // update(), and md5.update() with the same bytes.
  void update_with(Md5& md5, Bytes bytes);
  Sha256 finish();  // ends it

  // Whether update_with() is one pass on this processor.
  static bool has_one_pass();

 private:
  static constexpr size_t block_size = 64;
  Bytes complete_block(Bytes bytes);  // returns the remaining bytes
  void keep(Bytes rest);              // less than a block, nothing kept before
  void add_blocks(const std::byte* from, size_t blocks);
  void add_blocks_with(Md5& md5, const std::byte* from, size_t blocks);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint64_t size_ = 0;  // of all that came
  std::array<std::byte, block_size> kept_{};
};

}  // namespace verbena
