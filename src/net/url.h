// Addresses of HTTP servers and documents: http:// and https://HOST[:PORT][/PATH][?QUERY].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::net {

struct HttpUrl {
  bool tls = false;
  std::string host{};  // without the brackets of an IPv6 address
  uint16_t port = 0;
  std::string target = "/";  // path and query
};
// nullopt: another scheme, a user's name or a fragment in it, no port where one is announced, characters that do not
// belong there, longer than 2048.
std::optional<HttpUrl> parse_http_url(std::string_view text);

}  // namespace verbena::net
