// The addresses of a host, with a deadline. The C library's resolver has none: a name whose servers do not answer takes
// it half a minute, which asio's resolver waits for when its loop ends.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <atomic>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace verbena {

// Blocks. The text of an address resolves to itself. `resolve` looks a name up, on a thread of its own that may outlive
// the call; null: the system's resolver. connection_failed: unknown name; timed_out; cancelled (`stop` was set);
// slow_down: 64 names are being looked up.
using ResolveName = void (*)(const std::string& host, uint16_t port,
                             std::vector<boost::asio::ip::tcp::endpoint>& found);
Result<std::vector<boost::asio::ip::tcp::endpoint>> look_up_name(const std::string& host, uint16_t port, Deadline until,
                                                                 const std::atomic<bool>& stop,
                                                                 ResolveName resolve = nullptr);

}  // namespace verbena
