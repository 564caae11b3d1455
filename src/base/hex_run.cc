#include "base/hex_run.h"

#include "base/hex.h"
#include "base/processor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace verbena {
namespace {

constexpr size_t together = 16;

#if defined(__x86_64__)
// A digit is looked up by its value, 32 of them at once. `size` is a multiple of 16.
[[gnu::target("avx2")]] void write_by_avx2(Bytes bytes, size_t size, char* to, size_t stride) {
  const __m128i digits_once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lower_hex_digits.data()));
  const __m256i digits = _mm256_broadcastsi128_si256(digits_once);
  const __m256i low = _mm256_set1_epi8(15);
  for (size_t at = 0; at < bytes.size(); at += size, to += stride) {
    for (size_t i = 0; i < size; i += together) {
      const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data() + at + i));
      const __m256i wide = _mm256_cvtepu8_epi16(some);
      const __m256i values = _mm256_or_si256(_mm256_srli_epi16(wide, 4), _mm256_slli_epi16(wide, 8));
      const __m256i text = _mm256_shuffle_epi8(digits, _mm256_and_si256(values, low));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2 * i), text);
    }
  }
}
#endif

}  // namespace

void write_hex_run(Bytes bytes, size_t size, char* to, size_t stride) {
#if defined(__x86_64__)
  if (size % together == 0 && has_avx2()) return write_by_avx2(bytes, size, to, stride);
#endif
  for (size_t at = 0; at < bytes.size(); at += size, to += stride) write_hex(bytes.subspan(at, size), to);
}

}  // namespace verbena
