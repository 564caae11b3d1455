#include "net/url.h"

#include <algorithm>

#include "base/host_port.h"

namespace verbena::net {
namespace {

constexpr size_t url_bytes_max = 2048;

bool is_target(std::string_view target) {
  return std::ranges::all_of(target, [](char c) {
    return c > 0x20 && c < 0x7f && std::string_view("\"<>\\^`{|}#").find(c) == std::string_view::npos;
  });
}

}  // namespace

std::optional<HttpUrl> parse_http_url(std::string_view text) {
  constexpr std::string_view plain = "http://", secure = "https://";
  HttpUrl url;
  url.tls = text.starts_with(secure);
  if (text.size() > url_bytes_max || (!url.tls && !text.starts_with(plain))) return std::nullopt;
  text.remove_prefix(url.tls ? secure.size() : plain.size());
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  auto place = parse_host_port(text.substr(0, end));
  if (!place) return std::nullopt;
  url.host = std::move(place->host);
  const uint16_t usual = url.tls ? 443 : 80;
  url.port = place->port != 0 ? place->port : usual;
  url.target = text.substr(end);
  if (!url.target.starts_with('/')) url.target.insert(0, 1, '/');
  return is_target(url.target) ? std::optional(std::move(url)) : std::nullopt;
}

}  // namespace verbena::net
