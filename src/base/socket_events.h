// Sockets and pollables share a core: however many sockets have something to say, the core looks at its pollables
// (fabric endpoints, rings of this host) after every so many of their events.
#pragma once

#include <cstddef>

namespace verbena {

inline constexpr size_t socket_events_per_look = 16;

// Said by who serves sockets, on the core's thread, between two events: whatever the pollables bring is served in here.
// `count`: one that takes as long as so many counts as so many.
void note_socket_event(size_t count = 1);

}  // namespace verbena
