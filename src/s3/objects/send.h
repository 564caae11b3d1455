// Sends an open object's bytes to a door's Sink, by the fastest path that the sink offers.
#pragma once

#include <optional>

#include "base/request_trace.h"
#include "memory/stream.h"
#include "s3/service.h"

namespace verbena::s3 {

// Charges rates for sent bytes; for callers that move an object's bytes by themselves. The two functions below do it.
void charge_sent(const OpenObject& object);

// In one go, without a suspension: from memory into a sink that takes them so. unsupported: send_object() is the next
// call.
Result<memory::AtOnce> send_now(const OpenObject& object, memory::Sink& sink);

// Calls begin, push ... and finish of the sink: from memory piece by piece, else from the store, reading ahead within
// the peer's share of the arena so that disk and wire overlap. slow_down: there was no memory for too long. `trace`
// (may be null) gets the times.
Task<Result<void>> send_object(Service& service, const OpenObject& object, memory::Sink& sink,
                               RequestTrace* trace = nullptr);

}  // namespace verbena::s3
