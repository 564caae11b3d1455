// Which trace a request belongs to, as its caller says it. Source: W3C Recommendation "Trace Context" (2021).
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
  bool sampled = false;  // it is recorded there
};

// The value of a traceparent header; nullopt for anything that is none, which then counts as not there.
std::optional<TraceContext> parse_traceparent(std::string_view text);

// As a message of the native door carries it: trace, parent, flags.
inline constexpr size_t trace_context_size = 25;
std::optional<TraceContext> read_trace_context(Bytes bytes);

}  // namespace verbena::observe
