// The value of x-amz-request-id.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

namespace verbena::call {

inline constexpr size_t request_id_size = 16;  // upper-case hexadecimal digits

// All digits of eight bytes at once: each request has an id.
inline void write_request_id(uint64_t id, char* out) {
  for (const int shift : {32, 0}) {
    uint64_t digits = id >> shift & 0xffffffff;  // four bits in each byte, the last digit in the lowest
    digits = (digits | digits << 16) & 0x0000ffff0000ffff;
    digits = (digits | digits << 8) & 0x00ff00ff00ff00ff;
    digits = (digits | digits << 4) & 0x0f0f0f0f0f0f0f0f;
    const uint64_t letters = (digits + 0x0606060606060606) >> 4 & 0x0101010101010101;  // 10 and above
    uint64_t text = digits + 0x3030303030303030 + letters * ('A' - '9' - 1);
    if constexpr (std::endian::native == std::endian::little) text = std::byteswap(text);
    std::memcpy(out, &text, sizeof text);
    out += sizeof text;
  }
}

// A new id.
std::string make_request_id();

}  // namespace verbena::call
