// A server's address in URLs and settings: "host", "host:port", "[v6]", "[v6]:port".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena {

struct HostPort {
  std::string host{};  // a name, or an address; IPv6 without its brackets
  uint16_t port = 0;   // 0: none given
};

// nullopt: not of that form, or with a user. Names are of letters, digits, '-', '.' and '_'; a port is not 0.
std::optional<HostPort> parse_host_port(std::string_view text);

// False: not a number from 1 to 65535, in digits alone.
bool parse_port(std::string_view text, uint16_t& port);

}  // namespace verbena
