// Server addresses: "http://host:port" and "host:port".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/client.h"

namespace verbena::client {

struct Endpoint {
  std::string host;  // without brackets
  uint16_t port = 0;
  bool tls = false;
};

// scheme://host[:port][/]; http or https; IPv6 in brackets. invalid_argument names the fault.
Outcome<Endpoint> parse_endpoint(std::string_view url);
// host[:port]; IPv6 with a port in brackets.
Outcome<Endpoint> parse_host_port(std::string_view text, uint16_t default_port);

}  // namespace verbena::client
