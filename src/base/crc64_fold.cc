// Source of the method: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction"
// (Intel, 2009), in its bit-reflected form.
#include "base/crc64_fold.h"

#include <cstdlib>

#include "base/processor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define VERBENA_TARGET [[gnu::target("pclmul,sse2")]]
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define VERBENA_TARGET [[gnu::target("+crypto")]]
#endif

namespace verbena {

#if defined(VERBENA_TARGET)

namespace {

constexpr uint64_t polynomial = 0x9a6c9329ac4bc9b5;  // reflected 0xad93d23594c93659

// x^n modulo the polynomial, reflected: the top bit stands for x^0.
constexpr uint64_t power_of_x(unsigned n) {
  uint64_t value = uint64_t{1} << 63;
  for (; n > 0; --n) value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
  return value;
}

// A block of 128 bits is shifted by `distance` bits by multiplying its halves with these. The product of two reflected
// words is one bit too low, hence the -1.
struct Constants {
  uint64_t low, high;
};
constexpr Constants constants_for(unsigned distance) {
  return {power_of_x(distance + 64 - 1), power_of_x(distance - 1)};
}

#if defined(__x86_64__)

using Block = __m128i;

VERBENA_TARGET inline Block load(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

VERBENA_TARGET inline void store(std::byte* p, Block block) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), block); }

VERBENA_TARGET inline Block add(Block block, uint64_t low) {
  return _mm_xor_si128(block, _mm_cvtsi64_si128(static_cast<long long>(low)));
}

VERBENA_TARGET inline Block fold(Block block, Block by, Block into) {
  const __m128i low = _mm_clmulepi64_si128(block, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(block, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), into);
}

VERBENA_TARGET inline Block pair(Constants c) {
  return _mm_set_epi64x(static_cast<long long>(c.high), static_cast<long long>(c.low));
}

bool has_instructions() { return __builtin_cpu_supports("pclmul") != 0 && !is_emulated(); }

#else

using Block = uint64x2_t;

VERBENA_TARGET inline Block load(const std::byte* p) {
  return vreinterpretq_u64_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(p)));
}

VERBENA_TARGET inline void store(std::byte* p, Block block) {
  vst1q_u8(reinterpret_cast<uint8_t*>(p), vreinterpretq_u8_u64(block));
}

VERBENA_TARGET inline Block add(Block block, uint64_t low) {
  return veorq_u64(block, vsetq_lane_u64(low, vdupq_n_u64(0), 0));
}

VERBENA_TARGET inline Block fold(Block block, Block by, Block into) {
  const poly64x2_t a = vreinterpretq_p64_u64(block);
  const poly64x2_t b = vreinterpretq_p64_u64(by);
  const uint64x2_t low = vreinterpretq_u64_p128(vmull_p64(vgetq_lane_p64(a, 0), vgetq_lane_p64(b, 0)));
  const uint64x2_t high = vreinterpretq_u64_p128(vmull_high_p64(a, b));
  return veorq_u64(veorq_u64(low, high), into);
}

VERBENA_TARGET inline Block pair(Constants c) { return vcombine_u64(vcreate_u64(c.low), vcreate_u64(c.high)); }

bool has_instructions() { return (::getauxval(AT_HWCAP) & HWCAP_PMULL) != 0; }

#endif

}  // namespace

bool crc64_can_fold() {
  static const bool can = has_instructions();
  return can;
}

VERBENA_TARGET size_t crc64_fold(uint64_t state, Bytes data, std::byte (&folded)[16]) {
  static constexpr Constants by_512 = constants_for(512), by_384 = constants_for(384), by_256 = constants_for(256),
                             by_128 = constants_for(128);
  const std::byte* p = data.data();
  const size_t size = data.size() / 64 * 64;
  Block a = add(load(p), state);
  Block b = load(p + 16);
  Block c = load(p + 32);
  Block d = load(p + 48);
  const Block step = pair(by_512);
  for (size_t i = 64; i < size; i += 64) {
    a = fold(a, step, load(p + i));
    b = fold(b, step, load(p + i + 16));
    c = fold(c, step, load(p + i + 32));
    d = fold(d, step, load(p + i + 48));
  }
  d = fold(a, pair(by_384), d);
  d = fold(b, pair(by_256), d);
  d = fold(c, pair(by_128), d);
  store(folded, d);
  return size;
}

#undef VERBENA_TARGET

#else

bool crc64_can_fold() { return false; }
size_t crc64_fold(uint64_t /*state*/, Bytes /*data*/, std::byte (& /*folded*/)[16]) { std::abort(); }

#endif

}  // namespace verbena
