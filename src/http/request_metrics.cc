#include "http/request_metrics.h"

#include <algorithm>
#include <string>

namespace verbena::http {

RequestMetrics::RequestMetrics()
    : bytes_in_(metrics::counter("verbena_http_received_bytes_total", "Request body bytes read over HTTP")),
      bytes_out_(metrics::counter("verbena_http_sent_bytes_total", "Response body bytes sent over HTTP")),
      rdma_bytes_(metrics::counter("verbena_http_rdma_bytes_total", "Bytes moved by RDMA for HTTP requests")) {
  for (size_t d = 0; d < doors.size(); ++d) {
    const std::string door(doors[d]);
    duration_us_[d] = &metrics::counter("verbena_http_request_microseconds_total",
                                        "Time from a request's head to its answer's end", {{"door", door}});
    for (size_t m = 0; m < methods.size(); ++m) {
      for (size_t c = 0; c < classes; ++c) {
        requests_[d][m][c] = &metrics::counter(
            "verbena_http_requests_total", "S3 requests over HTTP by the door that moved their bytes",
            {{"door", door}, {"method", std::string(methods[m])}, {"status", std::to_string(c) + "xx"}});
      }
    }
  }
}

void RequestMetrics::note(bool token_door, std::string_view method, int status, uint64_t bytes_in, uint64_t bytes_out,
                          uint64_t rdma_bytes, int64_t duration_us) {
  const auto found = std::find(methods.begin(), methods.end() - 1, method);
  const auto m = static_cast<size_t>(found - methods.begin());
  const auto c = static_cast<size_t>(std::clamp(status / 100, 0, int(classes) - 1));
  requests_[token_door][m][c]->add();
  duration_us_[token_door]->add(static_cast<uint64_t>(std::max<int64_t>(duration_us, 0)));
  bytes_in_.add(bytes_in);
  bytes_out_.add(bytes_out);
  rdma_bytes_.add(rdma_bytes);
}

}  // namespace verbena::http
