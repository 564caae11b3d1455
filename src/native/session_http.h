// The HTTP side of the native door: the request that opens a session, health and metrics.
#pragma once

#include <memory>

#include "http/server.h"
#include "native/door_state.h"

namespace verbena::native {

Task<void> serve_http(std::shared_ptr<DoorState> door, http::Exchange& exchange);

}  // namespace verbena::native
