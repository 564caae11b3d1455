#include "auth/identifiers.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/hex.h"

namespace verbena::auth {
namespace {

constexpr std::string_view base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
constexpr std::string_view letters_and_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

bool printable(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c <= 0x20 || c == 0x7f; });
}

}  // namespace

std::string random_text(std::string_view alphabet, size_t length) {
  std::string text;
  while (text.size() < length) {
    std::byte raw[64];
    fill_random(raw);
    for (const std::byte b : raw) {
      const auto value = static_cast<size_t>(b);
      // Values past the last whole multiple would favour the alphabet's start.
      if (value < 256 / alphabet.size() * alphabet.size() && text.size() < length)
        text += alphabet[value % alphabet.size()];
    }
  }
  return text;
}

std::string make_access_key_id() { return "AKIA" + random_text(base32, 16); }
std::string make_temporary_key_id() { return "ASIA" + random_text(base32, 16); }
std::string make_secret_key() { return random_text(letters_and_digits, 40); }
std::string make_account_id() { return random_text("123456789", 1) + random_text("0123456789", 11); }
std::string make_canonical_id() { return random_text(lower_hex_digits, 64); }
std::string make_id(std::string_view kind) { return std::string(kind) + random_text(base32, 17); }

bool is_access_key(std::string_view text) {
  return text.size() >= 3 && text.size() <= 128 && printable(text) && text.find('/') == std::string_view::npos;
}

bool is_secret_key(std::string_view text) { return text.size() >= 8 && text.size() <= 256 && printable(text); }

}  // namespace verbena::auth
