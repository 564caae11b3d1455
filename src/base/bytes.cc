#include "base/bytes.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/hex.h"

namespace verbena {
namespace {

constexpr char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> base64_values = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (int i = 0; i < 64; ++i) values[static_cast<uint8_t>(base64_digits[i])] = static_cast<int8_t>(i);
  return values;
}();

}  // namespace

std::string to_hex(Bytes bytes) {
  std::string text(bytes.size() * 2, '\0');
  write_hex(bytes, text.data());
  return text;
}

std::optional<std::vector<std::byte>> from_hex(std::string_view text) {
  std::vector<std::byte> bytes(text.size() / 2);
  if (!read_hex(text, bytes)) return std::nullopt;
  return bytes;
}

std::string to_base64(Bytes bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t have = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < have ? static_cast<uint8_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) text += j <= have ? base64_digits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const size_t padding = !last ? 0 : text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
    uint32_t group = 0;
    for (size_t j = 0; j < 4; ++j) {
      const int value = j < 4 - padding ? base64_values[static_cast<uint8_t>(text[i + j])] : 0;
      if (value < 0) return std::nullopt;
      group = group << 6 | static_cast<uint32_t>(value);
    }
    // The bits cut off by padding must be zero, so that a value has one encoding only.
    if (padding == 1 && (group & 0xff) != 0) return std::nullopt;
    if (padding == 2 && (group & 0xffff) != 0) return std::nullopt;
    for (size_t j = 0; j < 3 - padding; ++j) bytes.push_back(static_cast<std::byte>(group >> (16 - 8 * j)));
  }
  return bytes;
}

bool equal_constant_time(Bytes a, Bytes b) {
  if (a.size() != b.size()) return false;
  volatile uint64_t difference = 0;
  size_t i = 0;
  for (; i + 8 <= a.size(); i += 8) {
    uint64_t x, y;
    std::memcpy(&x, a.data() + i, 8);
    std::memcpy(&y, b.data() + i, 8);
    difference = difference | (x ^ y);
  }
  for (; i < a.size(); ++i) difference = difference | static_cast<uint8_t>(a[i] ^ b[i]);
  return difference == 0;
}

std::string format_size(uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  const bool whole = std::abs(value - std::round(value)) < 0.05;
  std::snprintf(text, sizeof text, whole ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t value = 0;
  size_t i = 0;
  while (i < text.size() && text[i] >= '0' && text[i] <= '9') {
    if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(text[i] - '0'), &value)) {
      return std::nullopt;
    }
    ++i;
  }
  if (i == 0) return std::nullopt;
  while (i < text.size() && text[i] == ' ') ++i;
  std::string unit;
  for (; i < text.size(); ++i) unit += static_cast<char>(text[i] | 0x20);
  unsigned shift = 0;
  if (unit.empty() || unit == "b") {
    return value;
  } else if (unit == "k" || unit == "kb" || unit == "kib") {
    shift = 10;
  } else if (unit == "m" || unit == "mb" || unit == "mib") {
    shift = 20;
  } else if (unit == "g" || unit == "gb" || unit == "gib") {
    shift = 30;
  } else if (unit == "t" || unit == "tb" || unit == "tib") {
    shift = 40;
  } else {
    return std::nullopt;
  }
  if (value > UINT64_MAX >> shift) return std::nullopt;
  return value << shift;
}

void fill_random(MutableBytes into) {
  while (!into.empty()) {
    const ssize_t n = ::getrandom(into.data(), into.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) std::abort();
    into = into.subspan(static_cast<size_t>(n));
  }
}

}  // namespace verbena
