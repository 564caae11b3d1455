// Spans as OTLP has them over HTTP, in its JSON form. Source: opentelemetry-proto 1.x, "OTLP/HTTP", JSON Protobuf
// Encoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/request_trace.h"
#include "observe/line.h"
#include "observe/trace_context.h"

namespace verbena::observe {

struct SpanIds {
  TraceId trace{};
  SpanId span{};
  SpanId parent{};  // zeros: none
};

// The sender, named once in each document.
struct SpanSource {
  std::string version, instance;
};

// A document of any number of requests, each with its stages as spans below its own.
class SpanDocument {
 public:
  explicit SpanDocument(const SpanSource& source);
  // `began`, `ended`: ticks(), as RequestTrace has them. Ids of the stages are made at random.
  void add(const SpanIds& ids, const Line& line, const RequestTrace& trace, uint64_t began, uint64_t ended);
  std::string finish() &&;

 private:
  void add_span(const SpanIds& ids, std::string_view name, uint64_t from_ns, uint64_t to_ns, int kind,
                std::string_view rest);
  std::string out_;
  bool first_ = true;
};

}  // namespace verbena::observe
