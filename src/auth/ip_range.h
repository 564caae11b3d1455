// Internet addresses and ranges of them, in the notation of policies and configurations.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace verbena::auth {

struct IpAddress {
  bool v6 = false;
  std::array<uint8_t, 16> bytes{};  // 4 of them for IPv4
};

// An IPv4 address mapped into IPv6 ("::ffff:10.0.0.1") becomes IPv4.
std::optional<IpAddress> parse_ip(std::string_view text);

struct IpRange {
  IpAddress base;
  int bits = 0;  // the prefix
  bool contains(const IpAddress& address) const;
};

// "10.0.0.0/8", "2001:db8::/32", or one address.
std::optional<IpRange> parse_ip_range(std::string_view text);

}  // namespace verbena::auth
