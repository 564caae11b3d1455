// IP socket addresses as bytes, the format of Port::address(): sockaddr_in or sockaddr_in6.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::fabric::tcp {

struct SocketAddress {
  sockaddr_storage raw{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&raw); }
  std::string bytes() const { return {reinterpret_cast<const char*>(&raw), size}; }
  uint16_t port() const;
  void set_port(uint16_t port);
  bool is_any() const;  // 0.0.0.0 or ::
};

// malformed.
Result<SocketAddress> parse_socket_address(std::string_view bytes);
// An IP address as text. bad_config for any other text.
Result<SocketAddress> make_socket_address(const std::string& ip, uint16_t port);
Result<SocketAddress> own_address(int socket);

}  // namespace verbena::fabric::tcp
