#include "observe/trace_context.h"

#include <algorithm>

#include "base/hex.h"

namespace verbena::observe {
namespace {

constexpr uint64_t flag_sampled = 1;

bool is_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

// Ids of zeros are invalid.
std::optional<TraceContext> sound(const TraceContext& context) {
  if (is_zero(context.trace) || is_zero(context.parent)) return std::nullopt;
  return context;
}

}  // namespace

// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
std::optional<TraceContext> parse_traceparent(std::string_view text) {
  constexpr size_t size = 55;
  if (text.size() < size || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  const std::string_view version = text.substr(0, 2), trace = text.substr(3, 32), parent = text.substr(36, 16),
                         flags = text.substr(53, 2);
  for (const auto part : {version, trace, parent, flags}) {
    if (!is_lower_hex(part)) return std::nullopt;
  }
  // Later versions may have more fields after a dash.
  if (version == "ff" || (version == "00" && text.size() != size)) return std::nullopt;
  if (text.size() > size && text[size] != '-') return std::nullopt;
  TraceContext context;
  if (!read_hex(trace, context.trace) || !read_hex(parent, context.parent)) return std::nullopt;
  context.sampled = (parse_hex(flags).value_or(0) & flag_sampled) != 0;
  return sound(context);
}

std::optional<TraceContext> read_trace_context(Bytes bytes) {
  if (bytes.size() != trace_context_size) return std::nullopt;
  TraceContext context;
  std::ranges::copy(bytes.first(16), context.trace.begin());
  std::ranges::copy(bytes.subspan(16, 8), context.parent.begin());
  context.sampled = (static_cast<uint64_t>(bytes[24]) & flag_sampled) != 0;
  return sound(context);
}

}  // namespace verbena::observe
