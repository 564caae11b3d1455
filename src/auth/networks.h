// Networks that the server may connect to when a tenant or the DNS names the address: the public Internet, and ranges
// that the server's owner allows. Otherwise a tenant could explore the server's own network.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "auth/ip_range.h"

namespace verbena::auth {

class Networks {
 public:
  // Only public addresses.
  Networks() = default;
  // Public addresses and `ranges` ("10.0.0.0/8", "::1"). The error is a sentence for the operator.
  static std::expected<Networks, std::string> parse(const std::vector<std::string>& ranges);

  // `address`: as text, without a port. Invalid addresses, and those with a scope, are not allowed.
  bool allow(std::string_view address) const;

 private:
  std::vector<IpRange> allowed_;
};

// Not private, shared, loopback, link-local, multicast or documentation's (IANA's registries of special-purpose
// addresses). An IPv4 address embedded in an IPv6 one (mapped, NAT64, 6to4) is judged by itself.
bool is_public(const IpAddress& address);

}  // namespace verbena::auth
