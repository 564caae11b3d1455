// Addresses to listen at: of this machine, so never names that must be looked up.
#pragma once

#include <boost/asio/ip/address.hpp>

#include <optional>
#include <string_view>

#include "base/host_port.h"

namespace verbena {

// "10.0.0.5", "fd00::5", "fe80::1%eth0", the latter also in brackets; "localhost", which is 127.0.0.1; "*": every
// address, of IPv6 and of IPv4. nullopt: anything else.
std::optional<boost::asio::ip::address> parse_listen_host(std::string_view text);

// Such an address with a port (0: one that is free): "10.0.0.5:9000", "[fe80::1%eth0]:9000", "*:9000". IPv6 is in
// brackets, which `host` has no more; else the host stays as it is written, for parse_listen_host().
std::optional<HostPort> parse_listen_address(std::string_view text);

}  // namespace verbena
