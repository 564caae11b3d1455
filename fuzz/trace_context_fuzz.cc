// Callers' trace contexts: a traceparent header, and the same bytes as the context after a native message. An accepted
// context has nonzero ids, and is the same when it is written and read again.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "observe/trace_context.h"

using namespace verbena;

namespace {

bool is_none(Bytes id) {
  return std::ranges::all_of(id, [](std::byte b) { return b == std::byte{0}; });
}

void check(const observe::TraceContext& context) {
  if (is_none(context.trace) || is_none(context.parent)) std::abort();
  const std::string text =
      "00-" + to_hex(context.trace) + "-" + to_hex(context.parent) + (context.sampled ? "-01" : "-00");
  const auto again = observe::parse_traceparent(text);
  if (!again || again->trace != context.trace || again->parent != context.parent || again->sampled != context.sampled) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto context = observe::parse_traceparent(text)) check(*context);
  if (const auto context = observe::read_trace_context(as_bytes(text))) check(*context);
  return 0;
}
