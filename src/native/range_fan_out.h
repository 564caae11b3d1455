// Several ranges of one object into consecutive places of one window, in parallel.
#pragma once

#include <chrono>
#include <memory>

#include "fabric/fabric.h"
#include "native/wire/bodies.h"
#include "rdma/token_windows.h"
#include "s3/service.h"

namespace verbena::native {

// send_object() into a window. Even if the store fails in the middle, it returns only when every posted write has
// completed, because after an error the client reuses its memory.
Task<Result<void>> send_drained(s3::Service& service, const s3::OpenObject& object, rdma::WindowSink& sink,
                                RequestTrace* trace = nullptr);

// Returns when nothing is in flight any more, also on failure (with the first error). The sum of the ranges' lengths is
// at most the window's size.
Task<Result<void>> send_ranges(s3::Service& service, const s3::OpenObject& object,
                               const wire::Few<wire::Placed, wire::ranges_max>& ranges,
                               std::unique_ptr<fabric::Window> window, std::chrono::milliseconds deadline);

}  // namespace verbena::native
