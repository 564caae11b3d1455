// Where the server itself may connect to when a tenant or the DNS names the place: the public Internet, and what the
// server's owner allows besides. Else whoever may name it could look around in the network that the server is in.
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
  // And those of `ranges` ("10.0.0.0/8", "::1"). The error is a sentence for people.
  static std::expected<Networks, std::string> parse(const std::vector<std::string>& ranges);

  // `address`: as text, without a port. What is no address, or has a scope, is not allowed.
  bool allow(std::string_view address) const;

 private:
  std::vector<IpRange> allowed_;
};

// Not private, shared, loopback, link-local, multicast or documentation's (IANA's registries of special-purpose
// addresses). An IPv4 address that is wrapped in an IPv6 one (mapped, NAT64, 6to4) is what it is by itself.
bool is_public(const IpAddress& address);

}  // namespace verbena::auth
