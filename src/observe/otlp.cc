#include "observe/otlp.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/checksum.h"
#include "observe/record.h"

namespace verbena::observe {
namespace {

constexpr int kind_internal = 1, kind_server = 2;
constexpr int status_error = 2;

void append_attribute(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  fmt::format_to(std::back_inserter(out), R"({}{{"key":"{}","value":{{"stringValue":)", out.empty() ? "" : ",", name);
  append_json_text(out, value);
  out += "}}";
}

// OTLP's JSON form has 64-bit numbers as strings.
void append_attribute(std::string& out, std::string_view name, uint64_t value) {
  fmt::format_to(std::back_inserter(out), R"({}{{"key":"{}","value":{{"intValue":"{}"}}}})", out.empty() ? "" : ",",
                 name, value);
}

// No secret can get in: a line has no field for one.
std::string attributes_of(const Line& line) {
  std::string out;
  append_attribute(out, "verbena.door", line.door);
  append_attribute(out, "verbena.transport", line.transport);
  append_attribute(out, "verbena.request_id", line.request_id);
  append_attribute(out, "aws.s3.bucket", line.bucket);
  append_attribute(out, "aws.s3.key", line.key);
  append_attribute(out, "url.path", line.path);
  append_attribute(out, "client.address", line.peer);
  append_attribute(out, "user.id", line.principal);
  append_attribute(out, "error.type", line.error_code);
  append_attribute(out, "http.response.status_code", static_cast<uint64_t>(std::max(line.status, 0)));
  append_attribute(out, "verbena.bytes_in", line.bytes_in);
  append_attribute(out, "verbena.bytes_out", line.bytes_out);
  append_attribute(out, "verbena.rdma_bytes", line.rdma_bytes);
  return out;
}

std::string_view name_of(Stage stage, std::string_view action) {
  switch (stage) {
    case Stage::read:
      return "read";
    case Stage::open:
      return "open";
    case Stage::memory:
      return "wait";
    case Stage::disk:
      return "disk";
    case Stage::wire:
      return action.starts_with("GET") ? "send" : "receive";
    case Stage::reply:
      return "reply";
  }
  return "";
}

SpanId random_span() {
  SpanId id;
  fill_random(id);
  return id;
}

}  // namespace

SpanDocument::SpanDocument(const SpanSource& source) {
  std::string resource;
  append_attribute(resource, "service.name", "verbena");
  append_attribute(resource, "service.version", source.version);
  append_attribute(resource, "service.instance.id", source.instance);
  out_ = R"({"resourceSpans":[{"resource":{"attributes":[)" + resource +
         R"(]},"scopeSpans":[{"scope":{"name":"verbena"},"spans":[)";
}

void SpanDocument::add_span(const SpanIds& ids, std::string_view name, uint64_t from_ns, uint64_t to_ns, int kind,
                            std::string_view rest) {
  if (!first_) out_ += ',';
  first_ = false;
  out_ += R"({"traceId":")" + to_hex(ids.trace) + R"(","spanId":")" + to_hex(ids.span) + '"';
  if (ids.parent != SpanId{}) out_ += R"(,"parentSpanId":")" + to_hex(ids.parent) + '"';
  out_ += R"(,"name":)";
  append_json_text(out_, name);
  fmt::format_to(std::back_inserter(out_), R"(,"kind":{},"startTimeUnixNano":"{}","endTimeUnixNano":"{}"{}}})", kind,
                 from_ns, to_ns, rest);
}

void SpanDocument::add(const SpanIds& ids, const Line& line, const RequestTrace& trace, uint64_t began,
                       uint64_t ended) {
  const uint64_t start_ns = static_cast<uint64_t>(std::max<int64_t>(line.time_us, 0)) * 1000;
  const auto at = [&](uint64_t when) { return start_ns + ns_between(began, when); };
  std::string rest = R"(,"attributes":[)" + attributes_of(line) + ']';
  if (line.status >= 500 || line.status == 0) rest += fmt::format(R"(,"status":{{"code":{}}})", status_error);
  const std::string_view name = line.action.empty() ? std::string_view("request") : line.action;
  add_span(ids, name, start_ns, at(ended), kind_server, rest);

  uint64_t last = began;
  for (size_t i = 0; i < stage_count; ++i) {
    const RequestTrace::Times& times = trace.stages[i];
    if (times.began == 0) continue;
    last = std::max(last, times.ended);
    // A stage may have been entered several times: its span is from the first to the last, with the sum of the times as
    // an attribute.
    std::string together;
    append_attribute(together, "verbena.together_ns", times.ns);
    add_span({ids.trace, random_span(), ids.span}, name_of(static_cast<Stage>(i), line.action), at(times.began),
             at(times.ended), kind_internal, R"(,"attributes":[)" + together + ']');
  }
  if (trace.stages[static_cast<size_t>(Stage::reply)].began != 0 || last >= ended) return;
  add_span({ids.trace, random_span(), ids.span}, "reply", at(last), at(ended), kind_internal, "");
}

std::string SpanDocument::finish() && {
  out_ += "]}]}]}";
  return std::move(out_);
}

}  // namespace verbena::observe
