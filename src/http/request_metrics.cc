#include "http/request_metrics.h"

#include <algorithm>
#include <string>

namespace verbena::http {

RequestMetrics::RequestMetrics()
    : bytes_in_(metrics::counter("verbena_http_received_bytes_total", "Request body bytes read over HTTP")),
      bytes_out_(metrics::counter("verbena_http_sent_bytes_total", "Response body bytes sent over HTTP")),
      rdma_bytes_(
          metrics::counter("verbena_http_rdma_bytes_total",
                           "Bytes that one-sided operations on the windows of tokens moved, by whatever transport")) {
  for (size_t d = 0; d < doors.size(); ++d) {
    const std::string door(doors[d]);
    for (size_t m = 0; m < methods.size(); ++m) {
      for (size_t c = 0; c < classes; ++c) {
        requests_[d][m][c] = &metrics::counter(
            "verbena_http_requests_total", "S3 requests over HTTP by the door that moved their bytes",
            {{"door", door}, {"method", std::string(methods[m])}, {"status", std::to_string(c) + "xx"}});
      }
    }
  }
}

void RequestMetrics::note(const Request& request) {
  const auto found = std::find(methods.begin(), methods.end() - 1, request.method);
  const auto m = static_cast<size_t>(found - methods.begin());
  const auto c = static_cast<size_t>(std::clamp(request.status / 100, 0, int(classes) - 1));
  requests_[request.token_door][m][c]->add();
  bytes_in_.add(request.bytes_in);
  bytes_out_.add(request.bytes_out);
  rdma_bytes_.add(request.rdma_bytes);
  const uint64_t moved = request.bytes_in + request.bytes_out + request.rdma_bytes;
  times_[request.token_door].note(request.verb, moved, request.duration_ns, request.request_id);
}

}  // namespace verbena::http
