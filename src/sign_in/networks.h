// Where the server itself may connect to when a tenant names the place: the public Internet, and what the server's
// owner allows besides. Else whoever may name a provider could look around in the network that the server is in.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "auth/ip_range.h"

namespace verbena::sign_in {

class Networks {
 public:
  // Only public addresses.
  Networks() = default;
  // And those of `ranges` ("10.0.0.0/8", "::1"). The error is a sentence for people.
  static std::expected<Networks, std::string> parse(const std::vector<std::string>& ranges);

  // `address`: as text, without a port. What is no address, or has a scope, is not allowed.
  bool allow(std::string_view address) const;

 private:
  std::vector<auth::IpRange> allowed_;
};

// Not private, loopback, link-local, multicast, documentation's, nor an IPv4 address in an IPv6 one (IANA's registries
// of special-purpose addresses).
bool is_public(const auth::IpAddress& address);

}  // namespace verbena::sign_in
