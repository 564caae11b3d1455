// Percent-encoding for Signature Version 4 (AWS: "UriEncode()" in "Create a signed AWS API request").
#include "auth/canonical_request.h"
#include "base/hex.h"

namespace verbena::auth {

std::string uri_encode(std::string_view text, bool keep_slash) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (char c : text) {
    if (unreserved(c) || (c == '/' && keep_slash)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += upper_hex_digits[byte >> 4];
      out += upper_hex_digits[byte & 15];
    }
  }
  return out;
}

std::optional<std::string> uri_decode(std::string_view text) {
  if (text.find('%') == std::string_view::npos) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return out;
}

}  // namespace verbena::auth
