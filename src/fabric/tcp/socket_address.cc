#include "fabric/tcp/socket_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>

namespace verbena::fabric::tcp {
namespace {

// sin_port and sin6_port are at the same offset.
in_port_t& port_of(sockaddr_storage& raw) { return reinterpret_cast<sockaddr_in&>(raw).sin_port; }

}  // namespace

uint16_t SocketAddress::port() const { return ntohs(port_of(const_cast<sockaddr_storage&>(raw))); }
void SocketAddress::set_port(uint16_t port) { port_of(raw) = htons(port); }

bool SocketAddress::is_any() const {
  if (raw.ss_family == AF_INET) return reinterpret_cast<const sockaddr_in&>(raw).sin_addr.s_addr == INADDR_ANY;
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(raw).sin6_addr) != 0;
}

Result<SocketAddress> parse_socket_address(std::string_view bytes) {
  SocketAddress address;
  address.size = static_cast<socklen_t>(bytes.size());
  const bool v4 = bytes.size() == sizeof(sockaddr_in), v6 = bytes.size() == sizeof(sockaddr_in6);
  if (v4 || v6) {
    std::memcpy(&address.raw, bytes.data(), bytes.size());
    if (address.raw.ss_family == (v4 ? AF_INET : AF_INET6) && address.port() != 0) return address;
  }
  return fail(Errc::malformed, "tcp: no socket address");
}

Result<SocketAddress> make_socket_address(const std::string& ip, uint16_t port) {
  SocketAddress address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.raw);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.raw);
  const size_t percent = ip.find('%');  // fe80::1%eth0
  if (::inet_pton(AF_INET, ip.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    address.size = sizeof v4;
  } else if (::inet_pton(AF_INET6, ip.substr(0, percent).c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    address.size = sizeof v6;
    if (percent != std::string::npos) v6.sin6_scope_id = ::if_nametoindex(ip.c_str() + percent + 1);
  } else {
    return fail(Errc::bad_config, "tcp: no IP address");
  }
  address.set_port(port);
  return address;
}

Result<SocketAddress> own_address(int socket) {
  SocketAddress address;
  address.size = sizeof address.raw;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address.raw), &address.size) != 0) {
    return fail(Errc::io_error, "tcp: getsockname", errno);
  }
  return address;
}

}  // namespace verbena::fabric::tcp
