// Traces of a sample of requests, with the time of each stage, sent to a collector by OTLP over HTTP
// (docs/operations.md).
//
// A core decides at the start of a request whether it may be traced, and at its end, when its signer is known, whether
// it is; then it copies the report into a bounded buffer; a thread converts reports to spans and sends them. If the
// buffer is full, or the collector does not accept them, traces are lost and counted: a request never waits. If traces
// are off there is no tracer.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "base/request_trace.h"
#include "net/http_client.h"
#include "observe/line.h"
#include "observe/observers.h"
#include "observe/trace_context.h"

namespace verbena::observe {

// What is known at the start of a request.
struct Traced {
  bool wanted = false;
  bool of_caller = false;  // the caller has a trace, which counts if it has signed
  uint64_t began = 0;      // ticks()
  TraceContext context;
};

// Traces of the current second. Fixed windows: across their borders up to twice as many may begin within a second.
class PerSecond {
 public:
  // False: there are `max` already. Any thread.
  bool take(unsigned max);

 private:
  std::atomic<uint64_t> window_{0};  // the second (upper 32 bits), and the number of traces in it
};

class Tracer {
 public:
  static constexpr size_t buffered_max = 2048;  // traces that wait to be sent
  static constexpr size_t batch_max = 256;      // per call to the collector

  struct Options {
    std::string endpoint;                                        // "http://127.0.0.1:4318"; without a path: /v1/traces
    std::vector<std::pair<std::string, std::string>> headers{};  // for the collector
    double sample_ratio = 0.01;                                  // of the requests without a trace of their caller
    unsigned per_second_max = 100;                               // of all traces
    std::chrono::milliseconds gather{500};
    std::chrono::milliseconds timeout{5'000};  // of one call
  };
  // The error says what is wrong with the endpoint.
  static std::expected<std::unique_ptr<Tracer>, std::string> create(Options options);
  ~Tracer();  // sends the buffered traces, within two seconds at most
  Tracer(const Tracer&) = delete;

  // Decides whether a request may be traced: if the caller has a trace, else by sample_ratio. Any thread.
  Traced begin(const std::optional<TraceContext>& of_caller, uint64_t began);
  // Adds a finished request that may be traced. Trace and line are of the same request. `is_signed`: by its caller,
  // whose trace then decides: it is recorded or not. A stranger's counts for nothing: the request is one without. Never
  // more than per_second_max, and of the callers' half as many, so that strangers and callers leave the sample its
  // part. False: it is not traced.
  bool end(const Traced& traced, const Line& line, const RequestTrace& trace, bool is_signed);

  uint64_t dropped() const { return full_.value() + refused_.value(); }

 private:
  struct Ended {
    Traced traced;
    uint64_t ended = 0;  // ticks()
    RequestTrace trace;
    std::string record;  // of the line
  };
  Tracer(Options options, std::string target, std::unique_ptr<net::HttpClient> client);
  bool in_sample();
  void run();
  void send(const std::vector<Ended>& traces, bool last);  // last: the server is stopping
  // The status of the collector's answer.
  Result<int> post(const std::string& document, bool last) const;
  std::string encode(const std::vector<Ended>& traces) const;

  const Options options_;
  const std::string target_;  // path of the collector
  const std::unique_ptr<net::HttpClient> client_;
  const std::string instance_;
  metrics::Counter &sent_, &full_, &refused_;
  PerSecond all_, of_callers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Ended> waiting_;
  std::atomic<bool> stopping_ = false;  // changes under the lock
  const Observing observing_;
  std::thread sender_;
};

// "name=value,name=value", as OTEL_EXPORTER_OTLP_HEADERS has them. Empty names and invalid headers are left out.
std::vector<std::pair<std::string, std::string>> parse_trace_headers(std::string_view text);

}  // namespace verbena::observe
