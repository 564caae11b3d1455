// Conversion of the public request structures to messages: lent or staged memory, and the body.
#pragma once

#include "client/native/stream.h"

namespace verbena::client {

// Checks before anything is sent: invalid_request, key_too_long.
Result<void> check(const NativeGet& request);
Result<void> check(const NativePut& request);

// Called under the stream's lock (NativeStream::Prepare).
Result<void> prepare_get(const NativeGet& request, uint32_t inline_max_bytes, ObjectCall& call,
                         NativeStream::Body& body);
Result<void> prepare_head(const NativeGet& request, NativeStream::Body& body);
Result<void> prepare_put(const NativePut& request, uint32_t inline_max_bytes, ObjectCall& call,
                         NativeStream::Body& body);

// Lends a device's memory, which the server knows by that number. `memory` are addresses of the device.
Result<std::unique_ptr<fabric::Lent>> lend_device(fabric::Link& link, const NativeDevice& device, uint64_t number,
                                                  MutableBytes memory, fabric::Access access, bool& unfinished);
// Lends the memory itself or, where that is impossible, a staging block of the stream.
Result<native::wire::Descriptor> lend(NativeStream::Body& body, NativeCall& call, MutableBytes memory,
                                      fabric::Access access);

// Called after the call is done: copies staged bytes to their place and returns the block to its stream.
void settle(NativeStream& stream, ObjectCall& call);

}  // namespace verbena::client
