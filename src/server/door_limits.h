// The configured limits of connections and sessions, in the doors' form.
#pragma once

#include <memory>

#include "base/config.h"
#include "http/server.h"
#include "native/native.h"

namespace verbena::server {

http::Limits http_limits(const Config::Http& http);
// Some of them are reserved for this host. `door`: the metrics' label.
std::shared_ptr<http::ConnectionRoom> make_room(uint64_t connections_max, uint64_t client_max, const char* door);
// The limits of the native door.
native::Options native_limits(const Config::Rdma& rdma);

}  // namespace verbena::server
