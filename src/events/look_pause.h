// How long a server rests between two readings of what waits in a store that servers share.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace verbena::events {

// Reading costs more the more events there are: it is limited to a small part of the time, `took` being what the last
// one took. But a server that was frozen meanwhile, or waited for a cluster that did not answer, rests no longer than
// ten times `look_every`: it may be the leader next, and deliver all events.
inline SteadyClock::duration pause_after_look(std::chrono::milliseconds look_every, SteadyClock::duration took) {
  return std::clamp<SteadyClock::duration>(10 * took, look_every, 10 * look_every);
}

}  // namespace verbena::events
