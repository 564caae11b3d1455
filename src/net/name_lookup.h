// The addresses of a host, with a deadline. The C library's resolver has none: a name whose servers do not answer takes
// it half a minute, which asio's resolver waits for when its loop ends.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/stop.h"

namespace verbena::net {

using TcpEndpoints = std::vector<boost::asio::ip::tcp::endpoint>;

// Blocks. The text of an address resolves to itself. `resolve` looks a name up, on a thread of its own that may outlive
// the call; null: the system's resolver. Callers that want the same host and port at the same time share one look-up.
// connection_failed: unknown name; timed_out; cancelled; slow_down: 64 names are being looked up.
using ResolveName = void (*)(const std::string& host, uint16_t port, TcpEndpoints& found);
Result<TcpEndpoints> look_up_name(const std::string& host, uint16_t port, Deadline until, const Stop& stop,
                                  ResolveName resolve = nullptr);

// Whether an address, as text without a port, may be connected to. Null: each may. What a name resolves to is up to the
// DNS, which others control: so the very address that is connected to is checked.
using AddressCheck = std::function<bool(const std::string& address)>;
// Those of the host's addresses that may be connected to. access_denied: none.
Result<TcpEndpoints> find_addresses(const std::string& host, uint16_t port, const AddressCheck& allowed, Deadline until,
                                    const Stop& stop, ResolveName resolve = nullptr);

}  // namespace verbena::net
