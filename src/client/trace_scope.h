// The trace that this thread's requests belong to (verbena::TraceScope).
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "native/wire/trace.h"

namespace verbena::client {

struct ThreadTrace {
  std::string traceparent;                                               // empty: none
  std::array<std::byte, native::wire::trace_context_size> in_message{};  // in a native message's encoding
};
// False, with nothing changed, if the text is not a valid traceparent.
bool set_thread_trace(std::string_view traceparent);
const ThreadTrace* thread_trace();  // null: none

}  // namespace verbena::client
