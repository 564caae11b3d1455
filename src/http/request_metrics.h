// Counts requests by door, method and kind of status. Internal to http/.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/metrics.h"
#include "call/request_times.h"

namespace verbena::http {

// All counters are looked up once, here: noting a request is a few relaxed adds.
class RequestMetrics {
 public:
  RequestMetrics();
  struct Request {
    bool token_door = false;
    std::string_view method;
    call::Verb verb = call::Verb::other;
    std::string_view request_id;
    int status = 0;
    uint64_t bytes_in = 0, bytes_out = 0, rdma_bytes = 0;
    uint64_t duration_ns = 0;
  };
  void note(const Request& request);

 private:
  static constexpr std::array<std::string_view, 6> methods{"GET", "PUT", "HEAD", "DELETE", "POST", "other"};
  static constexpr std::array<std::string_view, 2> doors{"http", "token"};
  static constexpr size_t classes = 6;  // "0xx" stands for no answer
  std::array<std::array<std::array<metrics::Counter*, classes>, methods.size()>, doors.size()> requests_{};
  std::array<call::RequestTimes, doors.size()> times_{call::RequestTimes(call::Door::http),
                                                      call::RequestTimes(call::Door::token)};
  metrics::Counter& bytes_in_;
  metrics::Counter& bytes_out_;
  metrics::Counter& rdma_bytes_;
};

}  // namespace verbena::http
