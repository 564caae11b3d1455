// The fields of native messages: base/cursor.h, and texts with their lengths.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/cursor.h"

namespace verbena::native::wire {

using cursor::little_endian;
using cursor::Reader;
using cursor::Writer;

// A text after its length in one byte, or in two.
inline void put_text8(Writer& out, std::string_view text) {
  if (text.size() > 0xff) return out.fail();
  out.u8(static_cast<uint8_t>(text.size()));
  out.text(text);
}

inline void put_text16(Writer& out, std::string_view text) {
  if (text.size() > 0xffff) return out.fail();
  out.u16(static_cast<uint16_t>(text.size()));
  out.text(text);
}

inline std::string_view get_text8(Reader& in) { return in.text(in.u8()); }

inline std::string_view get_text16(Reader& in, size_t size_max) {
  const size_t size = in.u16();
  if (size > size_max) in.fail();
  return in.text(size);
}

// How many bytes two texts have in common at their beginning: names in order share most of them.
inline size_t common_start(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= most; at += sizeof(uint64_t)) {
    uint64_t one, other;
    std::memcpy(&one, a.data() + at, sizeof one);
    std::memcpy(&other, b.data() + at, sizeof other);
    const uint64_t differs = little_endian(one ^ other);
    if (differs != 0) return at + static_cast<size_t>(std::countr_zero(differs)) / 8;
  }
  while (at < most && a[at] == b[at]) ++at;
  return at;
}

}  // namespace verbena::native::wire
