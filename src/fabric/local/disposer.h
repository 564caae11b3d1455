// Closes descriptors and unmaps memory that came from clients, on a thread of its own. close() of a foreign descriptor
// can block (a FUSE file's flush, a TCP socket that lingers, and a Unix socket with either of them unread in its
// queue), and unmapping gigabytes takes milliseconds: neither may happen on a core's thread or delay the listener.
#pragma once

#include <memory>
#include <vector>

#include "fabric/local/fd.h"

namespace verbena::fabric::local {

// From any thread, without blocking. With very many already queued the caller does the work itself: descriptors must
// not pile up without bound.
void dispose(Fd fd);
void dispose(Mapping mapping);
// Never by the caller: the count bounds them. `counted` ends when all are closed.
void dispose(std::vector<Fd> counted_ones, std::shared_ptr<const void> counted);

}  // namespace verbena::fabric::local
