// How long a server rests between two readings of what waits in a store that servers share.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace verbena::events {

// Reading costs more the more events there are: it is limited to an eleventh of the time, `took` being what the last
// one took, or to a third if it takes long. More rest would hide for minutes what other servers leave, if it took so
// long because the server was frozen meanwhile, or waited for a cluster that did not answer.
inline SteadyClock::duration pause_after_look(std::chrono::milliseconds look_every, SteadyClock::duration took) {
  const SteadyClock::duration most = std::max<SteadyClock::duration>(10 * look_every, 2 * took);
  return std::clamp<SteadyClock::duration>(10 * took, look_every, most);
}

}  // namespace verbena::events
