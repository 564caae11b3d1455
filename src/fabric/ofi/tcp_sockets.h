// What the tcp provider leaves undone, done on its sockets from outside. Best effort: where a kernel refuses, nothing
// is lost but the protection.
#pragma once

#include <chrono>
#include <string_view>

namespace verbena::fabric::ofi {

// The lowest descriptor that is free now: where a search for sockets opened from here on begins.
int next_descriptor();

// Every reliable-datagram endpoint listens, also one that only dials out; and closing it while a stranger's connection
// has not yet introduced itself leaves the provider with a dangling pointer to the listener. So nobody gets that far:
// a socket filter drops whatever comes to the listener of the endpoint called `name` (fi_getname bytes).
bool refuse_connections(std::string_view name, int first_descriptor);

// The provider keeps a message for a peer that does not read until that peer goes away. Shuts down the connections of
// the endpoint called `name` that have had bytes to send and sent none for `limit`; their messages then fail. Returns
// how many.
size_t cut_stalled_connections(std::string_view name, std::chrono::milliseconds limit);

}  // namespace verbena::fabric::ofi
