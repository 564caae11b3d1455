// Addresses that an event target may have. Tenants cannot name targets, but a target's name is resolved by DNS, which
// others may control: so the very address that is connected to is checked.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <string>
#include <vector>

#include "base/result.h"

namespace verbena::events {

// No address of loopback, of a private or shared network, of a link, or of a group; nor one of those embedded in IPv6.
bool is_public(const boost::asio::ip::address& address);

using TcpEndpoints = std::vector<boost::asio::ip::tcp::endpoint>;
// Those of `found` that may be connected to. access_denied: none.
Result<TcpEndpoints> allowed_endpoints(const TcpEndpoints& found, bool allow_private);

}  // namespace verbena::events
