#include "base/host_port.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace verbena {
namespace {

constexpr size_t host_bytes_max = 253;  // of a name in the DNS

bool is_host_name(std::string_view text) {
  return !text.empty() && text.size() <= host_bytes_max && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
}

bool is_ipv6(std::string_view text) {
  in6_addr address;
  return text.find('\0') == std::string_view::npos && ::inet_pton(AF_INET6, std::string(text).c_str(), &address) == 1;
}

}  // namespace

bool parse_port(std::string_view text, uint16_t& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port != 0;
}

std::optional<HostPort> parse_host_port(std::string_view text) {
  HostPort out;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos || close - 1 > INET6_ADDRSTRLEN) return std::nullopt;
    out.host = text.substr(1, close - 1);
    text.remove_prefix(close + 1);
    if (!is_ipv6(out.host)) return std::nullopt;
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    if (!is_host_name(text.substr(0, colon))) return std::nullopt;
    out.host = text.substr(0, colon);
    text.remove_prefix(colon);
  }
  if (text.empty()) return out;
  if (!text.starts_with(':') || !parse_port(text.substr(1), out.port)) return std::nullopt;
  return out;
}

}  // namespace verbena
