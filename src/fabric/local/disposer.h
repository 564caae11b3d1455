// Closes descriptors and unmaps memory that came from clients, on threads of its own. close() of a foreign descriptor
// can block (a FUSE file's flush, a TCP socket that lingers, and a Unix socket with either of them unread in its
// queue), and unmapping gigabytes takes milliseconds: neither may happen on a core's thread or delay the listener.
// Descriptors and mappings have threads of their own, so that a close() that blocks does not keep memory mapped. One
// that blocks for a second has its thread replaced: up to 31 such descriptors do not hold up the closing of others.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "fabric/local/fd.h"

namespace verbena::fabric::local {

// For the listener's thread alone. With very many already queued the caller closes it itself: descriptors must not pile
// up without bound.
void dispose(Fd fd);

// From any thread, without blocking; never closed or unmapped by the caller. `counted`, which bounds how many there
// are, is dropped when all are closed or unmapped. Then `done`, if there is one, is called on the disposer's thread.
void dispose(std::vector<Fd> descriptors, std::shared_ptr<const void> counted);
void dispose(Mapping mapping, std::shared_ptr<const void> counted, std::function<void()> done);

}  // namespace verbena::fabric::local
