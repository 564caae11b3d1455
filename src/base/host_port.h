// Where a server is, as URLs and settings say it: "host", "host:port", "[v6]", "[v6]:port".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena {

struct HostPort {
  std::string host{};  // a name, or an address; IPv6 without its brackets
  uint16_t port = 0;   // 0: none is said
};

// None: it is no such text, or has a user in it. Names are of letters, digits, '-', '.' and '_'; a port is not 0.
std::optional<HostPort> parse_host_port(std::string_view text);

}  // namespace verbena
