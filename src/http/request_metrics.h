// Counts requests by door, method and kind of status. Internal to http/.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/metrics.h"

namespace verbena::http {

// All counters are looked up once, here: noting a request is a few relaxed adds.
class RequestMetrics {
 public:
  RequestMetrics();
  void note(bool token_door, std::string_view method, int status, uint64_t bytes_in, uint64_t bytes_out,
            uint64_t rdma_bytes, int64_t duration_us);

 private:
  static constexpr std::array<std::string_view, 6> methods{"GET", "PUT", "HEAD", "DELETE", "POST", "other"};
  static constexpr std::array<std::string_view, 2> doors{"http", "token"};
  static constexpr size_t classes = 6;  // "0xx" stands for no answer
  std::array<std::array<std::array<metrics::Counter*, classes>, methods.size()>, doors.size()> requests_{};
  std::array<metrics::Counter*, doors.size()> duration_us_{};
  metrics::Counter& bytes_in_;
  metrics::Counter& bytes_out_;
  metrics::Counter& rdma_bytes_;
};

}  // namespace verbena::http
