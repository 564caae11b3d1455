// A request's trace context from its caller. Source: W3C Recommendation "Trace Context" (2021).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace verbena::observe {

using TraceId = std::array<std::byte, 16>;
using SpanId = std::array<std::byte, 8>;

struct TraceContext {
  TraceId trace{};
  SpanId parent{};       // the caller's span
  bool sampled = false;  // the caller records it
};

// Parses a traceparent header; nullopt for an invalid one, which is ignored.
std::optional<TraceContext> parse_traceparent(std::string_view text);

// The encoding in a native message: trace, parent, flags.
inline constexpr size_t trace_context_size = 25;
std::optional<TraceContext> read_trace_context(Bytes bytes);

}  // namespace verbena::observe
