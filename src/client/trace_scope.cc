#include "client/trace_scope.h"

#include <algorithm>

#include "base/bytes.h"
#include "verbena/client.h"

namespace verbena {
namespace client {
namespace {

thread_local ThreadTrace current;

bool is_lower_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool all_zero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

// Source: W3C Recommendation "Trace Context" (2021), section 3.2: version, trace, parent, flags. Of a later version,
// the same fields.
bool set_thread_trace(std::string_view traceparent) {
  if (traceparent.empty()) {
    current.traceparent.clear();
    return true;
  }
  constexpr size_t size = 55;
  if (traceparent.size() < size || traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-') {
    return false;
  }
  const std::string_view version = traceparent.substr(0, 2), trace = traceparent.substr(3, 32),
                         parent = traceparent.substr(36, 16), flags = traceparent.substr(53, 2);
  for (const std::string_view field : {version, trace, parent, flags}) {
    if (!is_lower_hex(field)) return false;
  }
  const bool longer = traceparent.size() > size;
  if (version == "ff" || (longer && (version == "00" || traceparent[size] != '-'))) return false;
  if (all_zero(trace) || all_zero(parent) || traceparent.size() > 256) return false;
  if (!std::ranges::all_of(traceparent, [](char c) { return c > ' ' && c < 0x7f; })) return false;
  const auto bytes = from_hex(std::string(trace) + std::string(parent) + std::string(flags));
  std::ranges::copy(*bytes, current.in_message.begin());
  current.in_message.back() &= std::byte{1};
  current.traceparent = traceparent;
  return true;
}

const ThreadTrace* thread_trace() { return current.traceparent.empty() ? nullptr : &current; }

}  // namespace client

TraceScope::TraceScope(std::string_view traceparent) {
  if (const auto* outer = client::thread_trace()) outer_ = outer->traceparent;
  valid_ = !traceparent.empty() && client::set_thread_trace(traceparent);
}

TraceScope::~TraceScope() {
  if (valid_) (void)client::set_thread_trace(outer_);
}

}  // namespace verbena
