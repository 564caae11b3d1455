#include "base/running_sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "base/md5_steps.h"
#include "base/sha256_blocks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace verbena {
namespace {

#if defined(__x86_64__)

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned sha = 1u << 29;  // EBX of leaf 7 (Intel SDM, CPUID)
  return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & sha) != 0;
}

// FIPS 180-4, section 4.2.2.
alignas(16) constexpr uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

// Four rounds of SHA-256. word[q % 4] has their four words of the schedule; those of later rounds are prepared here, as
// far as they can be. The state is in the order of the instructions: a, b, e, f and c, d, g, h.
#define SHA256_FOUR(q)                                                                                        \
  {                                                                                                           \
    const __m128i sum = _mm_add_epi32(word[(q) % 4], _mm_load_si128(constants + (q)));                        \
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);                                                            \
    if ((q) >= 3 && (q) < 15) {                                                                               \
      const __m128i shifted = _mm_alignr_epi8(word[(q) % 4], word[((q) + 3) % 4], 4);                         \
      word[((q) + 1) % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(word[((q) + 1) % 4], shifted), word[(q) % 4]); \
    }                                                                                                         \
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));                                   \
    if ((q) >= 1 && (q) < 13) word[((q) + 3) % 4] = _mm_sha256msg1_epu32(word[((q) + 3) % 4], word[(q) % 4]); \
  }

#define BOTH_FOUR(MD5_FOUR, md5_q, q) \
  MD5_FOUR(md5_q)                     \
  SHA256_FOUR(q)

// The two chains depend on nothing of each other. Their steps alternate, so that the processor finds those of both
// within the instructions that it looks ahead.
[[gnu::target("sha,sse4.1,ssse3")]] void add_blocks_to_both(std::array<uint32_t, 4>& md5, std::array<uint32_t, 8>& sha,
                                                            const std::byte* from, size_t blocks) {
  const auto* const constants = reinterpret_cast<const __m128i*>(round_constants);
  const __m128i swap_bytes = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto* const halves = reinterpret_cast<__m128i*>(sha.data());
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(halves), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(halves + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
  uint32_t a = md5[0], b = md5[1], c = md5[2], d = md5[3];
  for (; blocks > 0; --blocks, from += 64) {
    uint32_t w[16];
    std::memcpy(w, from, sizeof w);
    __m128i word[4];
    for (int i = 0; i < 4; ++i) {
      word[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i), swap_bytes);
    }
    const std::array<uint32_t, 4> before{a, b, c, d};
    const __m128i abef_before = abef, cdgh_before = cdgh;
    BOTH_FOUR(MD5_FOUR_F, 0, 0)
    BOTH_FOUR(MD5_FOUR_F, 1, 1)
    BOTH_FOUR(MD5_FOUR_F, 2, 2)
    BOTH_FOUR(MD5_FOUR_F, 3, 3)
    BOTH_FOUR(MD5_FOUR_G_ALONE, 0, 4)
    BOTH_FOUR(MD5_FOUR_G_ALONE, 1, 5)
    BOTH_FOUR(MD5_FOUR_G_ALONE, 2, 6)
    BOTH_FOUR(MD5_FOUR_G_ALONE, 3, 7)
    BOTH_FOUR(MD5_FOUR_H, 0, 8)
    BOTH_FOUR(MD5_FOUR_H, 1, 9)
    BOTH_FOUR(MD5_FOUR_H, 2, 10)
    BOTH_FOUR(MD5_FOUR_H, 3, 11)
    BOTH_FOUR(MD5_FOUR_I, 0, 12)
    BOTH_FOUR(MD5_FOUR_I, 1, 13)
    BOTH_FOUR(MD5_FOUR_I, 2, 14)
    BOTH_FOUR(MD5_FOUR_I, 3, 15)
    a += before[0], b += before[1], c += before[2], d += before[3];
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  md5 = {a, b, c, d};
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(halves, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(halves + 1, _mm_alignr_epi8(dchg, feba, 8));
}

#endif

}  // namespace

bool RunningSha256::has_one_pass() {
#if defined(__x86_64__)
  static const bool has = has_sha_instructions();
  return has;
#else
  return false;
#endif
}

void RunningSha256::add_blocks(const std::byte* from, size_t blocks) {
  if (blocks != 0) add_sha256_blocks(state_, from, blocks);
}

void RunningSha256::add_blocks_with(Md5& md5, const std::byte* from, size_t blocks) {
#if defined(__x86_64__)
  if (has_one_pass()) {
    md5.size_ += blocks * block_size;
    return add_blocks_to_both(md5.state_, state_, from, blocks);
  }
#endif
  add_blocks(from, blocks);
  md5.update({from, blocks * block_size});
}

void RunningSha256::update(Bytes bytes) {
  const Bytes rest = complete_block(bytes);
  const size_t blocks = rest.size() / block_size;
  add_blocks(rest.data(), blocks);
  keep(rest.subspan(blocks * block_size));
}

void RunningSha256::update_with(Md5& md5, Bytes bytes) {
  if (md5.size_ % block_size != size_ % block_size) {  // they began at different bytes
    update(bytes);
    return md5.update(bytes);
  }
  const Bytes rest = complete_block(bytes);
  md5.update(bytes.first(bytes.size() - rest.size()));
  const size_t blocks = rest.size() / block_size;
  const Bytes last = rest.subspan(blocks * block_size);
  add_blocks_with(md5, rest.data(), blocks);
  keep(last);
  md5.update(last);
}

Bytes RunningSha256::complete_block(Bytes bytes) {
  const size_t begun = size_ % block_size;
  size_ += bytes.size();
  if (begun == 0) return bytes;
  const size_t missing = std::min(block_size - begun, bytes.size());
  std::ranges::copy(bytes.first(missing), kept_.begin() + static_cast<std::ptrdiff_t>(begun));
  if (begun + missing == block_size) add_blocks(kept_.data(), 1);
  return bytes.subspan(missing);
}

void RunningSha256::keep(Bytes rest) { std::ranges::copy(rest, kept_.begin()); }

Sha256 RunningSha256::finish() {
  uint64_t bits = size_ * 8;
  static constexpr std::array<std::byte, block_size> padding{std::byte{0x80}};
  const size_t begun = size_ % block_size;
  update(Bytes(padding).first(begun < 56 ? 56 - begun : 120 - begun));
  std::array<std::byte, 8> length{};
  for (size_t i = length.size(); i-- > 0; bits >>= 8) length[i] = static_cast<std::byte>(bits);
  update(length);
  Sha256 out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

}  // namespace verbena
