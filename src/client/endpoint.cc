#include "client/endpoint.h"

#include <charconv>

#include "client/outcome.h"
#include "client/without_keys.h"

namespace verbena::client {
namespace {

bool host_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
}

bool is_host(std::string_view host, bool bracketed) {
  if (host.empty() || host.size() > 253) return false;
  for (char c : host) {
    if (!host_character(c) && !(bracketed && (c == ':' || c == '%'))) return false;
  }
  return true;
}

}  // namespace

Outcome<Endpoint> parse_host_port(std::string_view text, uint16_t default_port) {
  const std::string shown = without_keys(text);
  Endpoint out;
  out.port = default_port;
  std::string_view port;
  bool has_port = false, bracketed = false;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == text.npos) return fault(ErrorCode::invalid_argument, "'" + shown + "': missing ']'");
    bracketed = true;
    out.host = text.substr(1, close - 1);
    std::string_view rest = text.substr(close + 1);
    has_port = rest.starts_with(':');
    if (!rest.empty() && !has_port) return fault(ErrorCode::invalid_argument, "'" + shown + "': expected HOST:PORT");
    if (has_port) port = rest.substr(1);
  } else {
    const size_t colon = text.find(':');
    has_port = colon != text.npos;
    out.host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
  }
  if (!is_host(out.host, bracketed)) return fault(ErrorCode::invalid_argument, "'" + shown + "': not a host name");
  if (has_port) {
    unsigned value = 0;
    auto [end, ec] = std::from_chars(port.data(), port.data() + port.size(), value);
    if (ec != std::errc() || end != port.data() + port.size() || value == 0 || value > 65535) {
      return fault(ErrorCode::invalid_argument, "'" + shown + "': the port must be 1 to 65535");
    }
    out.port = static_cast<uint16_t>(value);
  }
  return out;
}

Outcome<Endpoint> parse_endpoint(std::string_view url) {
  std::string_view rest = url;
  bool tls = false;
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
    tls = true;
  } else {
    return fault(ErrorCode::invalid_argument,
                 "endpoint '" + without_keys(url) + "': must begin with http:// or https://");
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  OUT_ASSIGN(Endpoint out, parse_host_port(rest, tls ? 443 : 80));
  out.tls = tls;
  return out;
}

}  // namespace verbena::client
