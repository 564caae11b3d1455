#include "http/local_request.h"

#include <algorithm>

#include "base/client_counts.h"
#include "base/text.h"

namespace verbena::http {
namespace {

bool is_port(std::string_view text) {
  return text.size() <= 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// "http://localhost:9001" -> "localhost:9001"; empty for anything but an origin.
std::string_view authority_of(std::string_view origin) {
  constexpr std::string_view separator = "://";
  const size_t at = origin.find(separator);
  return at == std::string_view::npos ? std::string_view() : origin.substr(at + separator.size());
}

}  // namespace

bool names_loopback(std::string_view host) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    if (!is_port(host.substr(colon + 1))) return false;
    host = host.substr(0, colon);
  }
  if (host.starts_with('[')) return host == "[::1]";
  if (host.find(':') != std::string_view::npos) return false;
  const std::string name = lower(host);
  return name == "localhost" || name == "localhost." || is_loopback_client(name);
}

bool is_local(const Exchange& exchange) {
  if (!is_loopback_client(client_of(exchange.peer_address()))) return false;
  size_t hosts = 0;
  for (const auto& [name, value] : exchange.headers()) {
    if (name == "host") {
      ++hosts;
      if (!names_loopback(value)) return false;
    } else if (name == "origin" && !names_loopback(authority_of(value))) {
      return false;
    }
  }
  return hosts == 1;
}

}  // namespace verbena::http
