#include "events/network_guard.h"

#include "auth/networks.h"

namespace verbena::events {

bool is_public(const boost::asio::ip::address& address) { return auth::Networks().allow(address.to_string()); }

net::AddressCheck check_of(const TargetSettings& settings) {
  if (settings.allow_private) return nullptr;
  return [](const std::string& address) { return auth::Networks().allow(address); };
}

Result<net::TcpEndpoints> target_addresses(const TargetSettings& settings, const std::string& host, uint16_t port,
                                           const net::Stop& stop) {
  auto found = net::find_addresses(host, port, check_of(settings), deadline_in(settings.timeout), stop);
  if (!found && found.error() == Errc::access_denied) return in_private_network();
  return found;
}

std::unexpected<Error> in_private_network() {
  return fail(Errc::access_denied, "events: the target lies in a private network");
}

}  // namespace verbena::events
