#include "auth/ip_range.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace verbena::auth {

std::optional<IpAddress> parse_ip(std::string_view text) {
  constexpr size_t text_max = 45;  // INET6_ADDRSTRLEN without its terminator
  if (text.empty() || text.size() > text_max || text.find('\0') != std::string_view::npos) return std::nullopt;
  const std::string name(text);
  IpAddress address;
  if (inet_pton(AF_INET, name.c_str(), address.bytes.data()) == 1) return address;
  if (inet_pton(AF_INET6, name.c_str(), address.bytes.data()) != 1) return std::nullopt;
  constexpr std::array<uint8_t, 12> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  address.v6 = !std::equal(mapped.begin(), mapped.end(), address.bytes.begin());
  if (!address.v6) {
    std::copy(address.bytes.begin() + 12, address.bytes.end(), address.bytes.begin());
    std::fill(address.bytes.begin() + 4, address.bytes.end(), uint8_t{0});
  }
  return address;
}

bool IpRange::contains(const IpAddress& address) const {
  if (address.v6 != base.v6) return false;
  const size_t whole = static_cast<size_t>(bits) / 8;
  if (!std::equal(base.bytes.begin(), base.bytes.begin() + whole, address.bytes.begin())) return false;
  const int rest = bits % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<uint8_t>(0xff << (8 - rest));
  return ((base.bytes[whole] ^ address.bytes[whole]) & mask) == 0;
}

std::optional<IpRange> parse_ip_range(std::string_view text) {
  const size_t slash = text.find('/');
  const auto base = parse_ip(text.substr(0, slash));
  if (!base) return std::nullopt;
  const int bits_max = base->v6 ? 128 : 32;
  if (slash == std::string_view::npos) return IpRange{*base, bits_max};
  const std::string_view number = text.substr(slash + 1);
  int bits = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), bits);
  if (error != std::errc() || end != number.data() + number.size() || bits < 0 || bits > bits_max) return std::nullopt;
  return IpRange{*base, bits};
}

}  // namespace verbena::auth
