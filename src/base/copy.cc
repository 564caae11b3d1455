#include "base/copy.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#include <xmmintrin.h>

#include <algorithm>
#endif

namespace verbena {

#if defined(__SSE2__)

namespace {

constexpr size_t line = 64, page = 4096, pages_at_once = 4;
constexpr size_t ahead = 8 * line;

void stream_line(std::byte* to, const std::byte* from) {
  for (size_t i = 0; i < line; i += sizeof(__m128i)) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), bytes);
  }
}

}  // namespace

// Copying several pages in parallel keeps more of the memory's banks busy than one line after the other.
void copy_past_caches(std::byte* to, const std::byte* from, size_t size) {
  const size_t head = std::min(size, (line - reinterpret_cast<uintptr_t>(to) % line) % line);
  copy_bytes(to, from, head);
  to += head, from += head, size -= head;
  for (; size >= pages_at_once * page; size -= pages_at_once * page) {
    for (size_t at = 0; at < page; at += line) {
      for (size_t i = 0; i < pages_at_once; ++i) {
        const size_t place = i * page + at;
        _mm_prefetch(reinterpret_cast<const char*>(from + place + ahead), _MM_HINT_T0);
        stream_line(to + place, from + place);
      }
    }
    to += pages_at_once * page, from += pages_at_once * page;
  }
  for (; size >= line; size -= line, to += line, from += line) stream_line(to, from);
  _mm_sfence();  // before any later store
  copy_bytes(to, from, size);
}

#else

void copy_past_caches(std::byte* to, const std::byte* from, size_t size) { copy_bytes(to, from, size); }

#endif

}  // namespace verbena
