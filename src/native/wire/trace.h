// A trace's context in a message: after the body, if the header has this flag (docs/native-protocol.md, section 2).
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::native::wire {

inline constexpr uint8_t flag_trace = 16;                 // beside Flags of message.h
inline constexpr size_t trace_context_size = 16 + 8 + 1;  // trace, the caller's span, flags

}  // namespace verbena::native::wire
