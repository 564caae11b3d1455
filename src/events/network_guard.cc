#include "events/network_guard.h"

#include "auth/networks.h"

namespace verbena::events {

bool is_public(const boost::asio::ip::address& address) {
  const auto parsed = auth::parse_ip(address.to_string());
  return parsed && auth::is_public(*parsed);
}

Result<TcpEndpoints> allowed_endpoints(const TcpEndpoints& found, bool allow_private) {
  TcpEndpoints allowed;
  for (const auto& endpoint : found) {
    if (allow_private || is_public(endpoint.address())) allowed.push_back(endpoint);
  }
  if (allowed.empty()) return fail(Errc::access_denied, "events: the target lies in a private network");
  return allowed;
}

}  // namespace verbena::events
