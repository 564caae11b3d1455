// Detection of requests that come from this machine and are meant for it.
#pragma once

#include "http/server.h"

namespace verbena::http {

// True if `host`, a Host header or the authority of an origin, names loopback: localhost, an address of 127.0.0.0/8 or
// [::1], with a port or without.
bool names_loopback(std::string_view host);

// True if the peer is on loopback, its Host names loopback, and no page of another site made the request. A browser on
// this machine sends requests for web pages, and the name of a page's own site may resolve to 127.0.0.1 (DNS
// rebinding): such a request arrives over loopback with that site's name in Host. Check this before giving loopback
// more rights.
bool is_local(const Exchange& exchange);

}  // namespace verbena::http
