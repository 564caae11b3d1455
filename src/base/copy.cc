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
  _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
  for (size_t i = 0; i < line; i += sizeof(__m128i)) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), bytes);
  }
}

// What is left is less than a line.
void stream_lines(std::byte*& to, const std::byte*& from, size_t& size) {
  for (; size >= line; size -= line, to += line, from += line) stream_line(to, from);
}

// Likewise, less than the pages.
void stream_pages(std::byte*& to, const std::byte*& from, size_t& size) {
  for (; size >= pages_at_once * page; size -= pages_at_once * page) {
    for (size_t at = 0; at < page; at += line) {
      for (size_t i = 0; i < pages_at_once; ++i) stream_line(to + i * page + at, from + i * page + at);
    }
    to += pages_at_once * page, from += pages_at_once * page;
  }
}

}  // namespace

CopyOrder best_copy_order() {
  static const CopyOrder best = __builtin_cpu_is("intel") != 0 ? CopyOrder::pages_in_parallel : CopyOrder::lines;
  return best;
}

void copy_past_caches_in(std::byte* to, const std::byte* from, size_t size, CopyOrder order) {
  const size_t head = std::min(size, (line - reinterpret_cast<uintptr_t>(to) % line) % line);
  copy_bytes(to, from, head);
  to += head, from += head, size -= head;
  if (order == CopyOrder::pages_in_parallel) stream_pages(to, from, size);
  stream_lines(to, from, size);
  _mm_sfence();  // before any later store
  copy_bytes(to, from, size);
}

#else

CopyOrder best_copy_order() { return CopyOrder::lines; }

void copy_past_caches_in(std::byte* to, const std::byte* from, size_t size, CopyOrder) { copy_bytes(to, from, size); }

#endif

void copy_past_caches(std::byte* to, const std::byte* from, size_t size) {
  copy_past_caches_in(to, from, size, best_copy_order());
}

}  // namespace verbena
