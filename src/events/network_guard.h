// Which addresses a target of events may have. A tenant cannot name targets, but a target's name is looked up by DNS,
// which others may run: so what is looked at is the very address that is connected to.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <string>
#include <vector>

#include "base/result.h"

namespace verbena::events {

// No address of loopback, of a private or shared network, of a link, or of a group; nor one of those wrapped in IPv6.
bool is_public(const boost::asio::ip::address& address);

using TcpEndpoints = std::vector<boost::asio::ip::tcp::endpoint>;
// Those of `found` that may be connected to. access_denied: none of them.
Result<TcpEndpoints> allowed_endpoints(const TcpEndpoints& found, bool allow_private);

}  // namespace verbena::events
