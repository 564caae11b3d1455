// Protections that the tcp provider lacks, applied to its sockets from outside. Best effort: if a kernel refuses, only
// the protection is missing.
#pragma once

#include <chrono>
#include <string_view>

namespace verbena::fabric::ofi {

// The lowest free descriptor: where a search for sockets opened from here on begins.
int next_descriptor();

// Every reliable-datagram endpoint listens, also one that only connects to others; and closing it while an incoming
// connection has not yet introduced itself leaves the provider with a dangling pointer to the listener. So a socket
// filter drops everything sent to the listener of the endpoint called `name` (fi_getname bytes).
bool refuse_connections(std::string_view name, int first_descriptor);

// The provider keeps a message for a peer that does not read until that peer is gone. Shuts down the connections of the
// endpoint called `name` that have had bytes to send and sent none for `limit`; their messages then fail. Returns how
// many.
size_t cut_stalled_connections(std::string_view name, std::chrono::milliseconds limit);

}  // namespace verbena::fabric::ofi
