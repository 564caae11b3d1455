// Requests that come from this machine and were meant for it.
#pragma once

#include "http/server.h"

namespace verbena::http {

// Whether `host`, a Host header or the authority of an origin, names loopback: localhost, an address of 127.0.0.0/8 or
// [::1], with a port or without.
bool names_loopback(std::string_view host);

// Whether the peer is on loopback, its Host names loopback, and no page from elsewhere made the request. A browser here
// sends what pages tell it to, and the name of a page's own site may lead to 127.0.0.1 (DNS rebinding): such a request
// comes over loopback with that site's name in Host. Ask this before anything is open because the peer is near.
bool is_local(const Exchange& exchange);

}  // namespace verbena::http
