// Decimal numbers in texts of protocols.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace verbena {

// A decimal number without sign or blanks. nullopt for anything else or when it does not fit.
inline std::optional<uint64_t> parse_decimal(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace verbena
