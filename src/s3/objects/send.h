// An open object's bytes into a door's Sink: one place that picks the way, for every door.
#pragma once

#include <optional>

#include "base/request_trace.h"
#include "memory/stream.h"
#include "s3/service.h"

namespace verbena::s3 {

// Rates are charged here for what is sent, by both of these. For a caller that moves an object's bytes by itself:
void charge_sent(const OpenObject& object);

// In one go, without a suspension: from memory into a sink that takes them so. unsupported: send_object() is the next
// call.
Result<memory::AtOnce> send_now(const OpenObject& object, memory::Sink& sink);

// begin, push ..., finish on the sink: from memory in the pieces in which it lies there, else from the store, reading
// ahead so that disk and wire overlap, as far as the peer's share of the arena goes. slow_down: there was no memory for
// it for too long. `trace` (may be null) gets the times.
Task<Result<void>> send_object(Service& service, const OpenObject& object, memory::Sink& sink,
                               RequestTrace* trace = nullptr);

}  // namespace verbena::s3
