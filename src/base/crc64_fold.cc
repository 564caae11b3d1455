// Source of the method: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction"
// (Intel, 2009), in its bit-reflected form.
#include "base/crc64_fold.h"

#include <cstdlib>

#if defined(__x86_64__)
#include <immintrin.h>

namespace verbena {
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

[[gnu::target("pclmul,sse2")]] inline __m128i load(const std::byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

[[gnu::target("pclmul,sse2")]] inline __m128i fold(__m128i block, __m128i by, __m128i into) {
  const __m128i low = _mm_clmulepi64_si128(block, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(block, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), into);
}

[[gnu::target("pclmul,sse2")]] inline __m128i pair(Constants c) {
  return _mm_set_epi64x(static_cast<long long>(c.high), static_cast<long long>(c.low));
}

}  // namespace

bool crc64_can_fold() {
  static const bool can = __builtin_cpu_supports("pclmul");
  return can;
}

[[gnu::target("pclmul,sse2")]] size_t crc64_fold(uint64_t state, Bytes data, std::byte (&folded)[16]) {
  static constexpr Constants by_512 = constants_for(512), by_384 = constants_for(384), by_256 = constants_for(256),
                             by_128 = constants_for(128);
  const std::byte* p = data.data();
  const size_t size = data.size() / 64 * 64;
  __m128i a = _mm_xor_si128(load(p), _mm_cvtsi64_si128(static_cast<long long>(state)));
  __m128i b = load(p + 16);
  __m128i c = load(p + 32);
  __m128i d = load(p + 48);
  const __m128i step = pair(by_512);
  for (size_t i = 64; i < size; i += 64) {
    a = fold(a, step, load(p + i));
    b = fold(b, step, load(p + i + 16));
    c = fold(c, step, load(p + i + 32));
    d = fold(d, step, load(p + i + 48));
  }
  d = fold(a, pair(by_384), d);
  d = fold(b, pair(by_256), d);
  d = fold(c, pair(by_128), d);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(folded), d);
  return size;
}

}  // namespace verbena

#else

namespace verbena {

bool crc64_can_fold() { return false; }
size_t crc64_fold(uint64_t /*state*/, Bytes /*data*/, std::byte (& /*folded*/)[16]) { std::abort(); }

}  // namespace verbena

#endif
