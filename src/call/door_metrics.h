// Objects' payload bytes by door and by transport.
#pragma once

#include <cstdint>

#include "call/call.h"
#include "rdma/transport.h"

namespace verbena::call {

enum class Direction : uint8_t { in, out };  // PUT, GET

// All of these series exist from the start, so that the first count shows as a change.
void register_door_metrics();
// verbena_door_bytes_total{door,direction} and verbena_transport_bytes_total{transport,direction}. Called by
// count() alone, when a request has been answered.
void count_bytes(Door door, rdma::Transport transport, Direction direction, uint64_t bytes);
// verbena_token_declines_total{direction}: a token was answered with x-amz-rdma-reply: 501 before any transfer.
void count_decline(Direction direction);
// verbena_token_fallbacks_total: a GET's transfer failed and the body took over.
void count_fallback();
// verbena_token_failures_total: a PUT's transfer failed.
void count_failure();

}  // namespace verbena::call
