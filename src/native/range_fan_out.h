// Several ranges of one object into consecutive places of one window, in parallel.
#pragma once

#include <chrono>
#include <memory>

#include "fabric/fabric.h"
#include "native/wire/bodies.h"
#include "rdma/token_windows.h"
#include "s3/service.h"

namespace verbena::native {

// send_object() into a window: also when the store fails in the middle, it returns only when every write that was
// posted has completed. The client takes an error for an answer and reuses its memory.
Task<Result<void>> send_drained(s3::Service& service, const s3::OpenObject& object, rdma::WindowSink& sink,
                                RequestTrace* trace = nullptr);

// Returns when nothing of it is in flight any more, also on failure (the first error is returned).
// The ranges' lengths add up to at most the window's size.
Task<Result<void>> send_ranges(s3::Service& service, const s3::OpenObject& object,
                               const wire::Few<wire::Placed, wire::ranges_max>& ranges,
                               std::unique_ptr<fabric::Window> window, std::chrono::milliseconds deadline);

}  // namespace verbena::native
