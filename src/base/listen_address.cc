#include "base/listen_address.h"

#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/address_v6.hpp>

#include <string>

namespace verbena {
namespace {

namespace ip = boost::asio::ip;

constexpr size_t listen_host_bytes_max = 64;  // an IPv6 address with a scope

bool is_bracketed(std::string_view text) { return text.size() > 2 && text.front() == '[' && text.back() == ']'; }

}  // namespace

std::optional<ip::address> parse_listen_host(std::string_view text) {
  if (text == "localhost") return ip::address_v4::loopback();
  if (text == "*") return ip::address_v6::any();
  if (is_bracketed(text)) text = text.substr(1, text.size() - 2);
  if (text.size() > listen_host_bytes_max || text.find('\0') != std::string_view::npos) return std::nullopt;
  boost::system::error_code wrong;
  const auto address = ip::make_address(std::string(text), wrong);
  return wrong ? std::nullopt : std::optional(address);
}

std::optional<HostPort> parse_listen_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  HostPort out;
  const auto address = parse_listen_host(host);
  const std::string_view port = text.substr(colon + 1);
  if (!address || (port != "0" && !parse_port(port, out.port))) return std::nullopt;
  const bool v6_in_text = host.find(':') != std::string_view::npos;
  if (v6_in_text != is_bracketed(host)) return std::nullopt;
  if (v6_in_text) host = host.substr(1, host.size() - 2);
  out.host = host;
  return out;
}

}  // namespace verbena
