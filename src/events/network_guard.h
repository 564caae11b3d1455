// Addresses that an event target may have. Tenants cannot name targets, but a target's name is resolved by DNS, which
// others may control: so the very address that is connected to is checked.
#pragma once

#include <boost/asio/ip/address.hpp>

#include <string>

#include "events/target_settings.h"
#include "net/name_lookup.h"

namespace verbena::events {

// No address of loopback, of a private or shared network, of a link, or of a group; nor one of those embedded in IPv6.
bool is_public(const boost::asio::ip::address& address);

// The check of a target's addresses; null: each is allowed.
net::AddressCheck check_of(const TargetSettings& settings);

// Addresses of `host` that a target with these settings may have, within its timeout. access_denied: none.
Result<net::TcpEndpoints> target_addresses(const TargetSettings& settings, const std::string& host, uint16_t port,
                                           const net::Stop& stop);
inline Result<net::TcpEndpoints> target_addresses(const TargetSettings& settings, const net::Stop& stop) {
  return target_addresses(settings, settings.host, settings.port, stop);
}
// What is said of such a refusal.
std::unexpected<Error> in_private_network();

}  // namespace verbena::events
