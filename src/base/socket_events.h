// Fairness between sockets and pollables of a core: after a fixed number of socket events, however many more there are,
// the core polls its pollables (fabric endpoints, rings of this host).
#pragma once

#include <cstddef>

namespace verbena {

inline constexpr size_t socket_events_per_look = 16;

// Called by socket code, on the core's thread, between two events: the pollables are polled inside. `count`: the number
// of ordinary events that this one counts as.
void note_socket_event(size_t count = 1);

}  // namespace verbena
