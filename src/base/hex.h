// Hexadecimal digits and numbers. Whole strings of bytes: to_hex() and from_hex() of base/bytes.h, which stand on this.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace verbena {

inline constexpr std::string_view lower_hex_digits = "0123456789abcdef";
inline constexpr std::string_view upper_hex_digits = "0123456789ABCDEF";

namespace detail {

inline constexpr std::array<int8_t, 256> hex_values = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < 16; ++i) {
    values[static_cast<uint8_t>(lower_hex_digits[i])] = static_cast<int8_t>(i);
    values[static_cast<uint8_t>(upper_hex_digits[i])] = static_cast<int8_t>(i);
  }
  return values;
}();

// 0 to 15 for a lower-case digit, else 0xff. Values are combined with |, so that a loop over a request's digits has no
// branch.
inline constexpr std::array<uint8_t, 256> lower_hex_values = [] {
  std::array<uint8_t, 256> values{};
  values.fill(0xff);
  for (size_t i = 0; i < 16; ++i) values[static_cast<uint8_t>(lower_hex_digits[i])] = static_cast<uint8_t>(i);
  return values;
}();

// The two lower-case digits of each byte.
inline constexpr std::array<std::array<char, 2>, 256> hex_pairs = [] {
  std::array<std::array<char, 2>, 256> pairs{};
  for (size_t i = 0; i < 256; ++i) pairs[i] = {lower_hex_digits[i >> 4], lower_hex_digits[i & 15]};
  return pairs;
}();

// The 32 digits of 16 bytes, without a branch or a table.
inline void write_hex_16(const std::byte* from, char* to) {
  using Vector [[gnu::vector_size(16)]] = uint8_t;
  Vector bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  const Vector high = bytes >> 4, low = bytes & 15;
  const Vector halves[2] = {
      __builtin_shufflevector(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
      __builtin_shufflevector(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31),
  };
  for (const Vector& values : halves) {
    const Vector letters = reinterpret_cast<Vector>(values > 9) & ('a' - '0' - 10);
    const Vector digits = values + '0' + letters;
    std::memcpy(to, &digits, sizeof digits);
    to += sizeof digits;
  }
}

// The 16 bytes that 32 lower-case digits stand for; false for any other text. Without a branch or a table.
inline bool read_lower_hex_16(const char* from, std::byte* to) {
  using Vector [[gnu::vector_size(16)]] = uint8_t;
  Vector values[2], bad{};
  for (Vector& half : values) {
    Vector text;
    std::memcpy(&text, from, sizeof text);
    from += sizeof text;
    const Vector digits = text - '0', letters = text - 'a';
    const Vector is_digit = reinterpret_cast<Vector>(digits < 10), is_letter = reinterpret_cast<Vector>(letters < 6);
    half = (digits & is_digit) | ((letters + 10) & is_letter);
    bad |= ~(is_digit | is_letter);
  }
  const Vector high =
      __builtin_shufflevector(values[0], values[1], 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const Vector low =
      __builtin_shufflevector(values[0], values[1], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  const Vector bytes = high << 4 | low;
  std::memcpy(to, &bytes, sizeof bytes);
  uint64_t seen[2];
  std::memcpy(seen, &bad, sizeof seen);
  return (seen[0] | seen[1]) == 0;
}

}  // namespace detail

// 0 to 15 for a digit of either case, else -1.
constexpr int hex_value(char c) { return detail::hex_values[static_cast<uint8_t>(c)]; }
constexpr bool is_hex_digit(char c) { return hex_value(c) >= 0; }

// One digit or more, and nothing else.
inline bool is_hex(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_hex_digit); }
inline bool is_lower_hex(std::string_view text) {
  uint8_t seen = 0;
  for (const char c : text) seen |= detail::lower_hex_values[static_cast<uint8_t>(c)];
  return !text.empty() && seen < 16;
}

// A number of at most `digits_max` digits (16 fill 64 bits), without sign or prefix; nullopt for anything else.
inline std::optional<uint64_t> parse_hex(std::string_view text, size_t digits_max = 16) {
  if (!is_hex(text) || text.size() > std::min<size_t>(digits_max, 16)) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) value = value << 4 | static_cast<uint64_t>(hex_value(c));
  return value;
}

// The number without leading zeros.
inline void append_hex(std::string& text, uint64_t value) {
  char digits[16];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value, 16).ptr);
}

// Two lower-case digits for each byte; `to` has room for them.
inline void write_hex(Bytes bytes, char* to) {
  for (; bytes.size() >= 16; bytes = bytes.subspan(16), to += 32) detail::write_hex_16(bytes.data(), to);
  for (const std::byte b : bytes) {
    std::memcpy(to, detail::hex_pairs[static_cast<uint8_t>(b)].data(), 2);
    to += 2;
  }
}

// Fills `into` from exactly twice as many digits, of either case; false for any other text.
inline bool read_hex(std::string_view text, MutableBytes into) {
  if (text.size() != 2 * into.size()) return false;
  for (size_t i = 0; i < into.size(); ++i) {
    const int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    into[i] = static_cast<std::byte>(high << 4 | low);
  }
  return true;
}

// read_hex() for lower-case digits only. `into` may be written to when it fails.
inline bool read_lower_hex(std::string_view text, MutableBytes into) {
  if (text.size() != 2 * into.size()) return false;
  for (; into.size() >= 16; into = into.subspan(16), text.remove_prefix(32)) {
    if (!detail::read_lower_hex_16(text.data(), into.data())) return false;
  }
  uint8_t seen = 0;
  for (size_t i = 0; i < into.size(); ++i) {
    const uint8_t high = detail::lower_hex_values[static_cast<uint8_t>(text[2 * i])];
    const uint8_t low = detail::lower_hex_values[static_cast<uint8_t>(text[2 * i + 1])];
    seen |= high | low;
    into[i] = static_cast<std::byte>(high << 4 | low);
  }
  return seen < 16;
}

}  // namespace verbena
