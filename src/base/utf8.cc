#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace verbena {
namespace {

// The first byte that is none of ASCII's; most keys have nothing else.
const uint8_t* behind_ascii(const uint8_t* p, const uint8_t* end) {
  uint64_t eight;
  for (; end - p >= 8; p += 8) {
    std::memcpy(&eight, p, sizeof(eight));
    if ((eight & 0x8080808080808080) != 0) break;
  }
  while (p < end && *p < 0x80) ++p;
  return p;
}

}  // namespace

bool valid_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  const auto* end = p + text.size();
  while (p < end) {
    if (*p < 0x80) {
      p = behind_ascii(p, end);
      continue;
    }
    int more;
    uint32_t code, least;
    if ((*p & 0xe0) == 0xc0) {
      more = 1, code = *p & 0x1f, least = 0x80;
    } else if ((*p & 0xf0) == 0xe0) {
      more = 2, code = *p & 0x0f, least = 0x800;
    } else if ((*p & 0xf8) == 0xf0) {
      more = 3, code = *p & 0x07, least = 0x10000;
    } else {
      return false;
    }
    if (end - p <= more) return false;
    for (int i = 1; i <= more; ++i) {
      if ((p[i] & 0xc0) != 0x80) return false;
      code = code << 6 | (p[i] & 0x3f);
    }
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
    p += more + 1;
  }
  return true;
}

}  // namespace verbena
