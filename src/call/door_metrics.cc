#include "call/door_metrics.h"

#include <array>

#include "base/metrics.h"

namespace verbena::call {
namespace {

metrics::Counter& bytes_counter(const char* door, const char* direction) {
  return metrics::counter("verbena_door_bytes_total", "Payload bytes of objects by door, whatever carried them.",
                          {{"door", door}, {"direction", direction}});
}

metrics::Counter& transport_counter(rdma::Transport transport, const char* direction) {
  return metrics::counter("verbena_transport_bytes_total",
                          "Payload bytes of objects by what carried them: rdma is an RDMA device alone.",
                          {{"transport", std::string(to_string(transport))}, {"direction", direction}});
}

metrics::Counter& decline_counter(const char* direction) {
  return metrics::counter("verbena_token_declines_total", "RDMA tokens declined before any transfer.",
                          {{"direction", direction}});
}

struct DoorMetrics {
  const std::array<std::array<metrics::Counter*, 2>, 3> bytes = {{
      {&bytes_counter("http", "in"), &bytes_counter("http", "out")},
      {&bytes_counter("token", "in"), &bytes_counter("token", "out")},
      {&bytes_counter("native", "in"), &bytes_counter("native", "out")},
  }};
  const std::array<std::array<metrics::Counter*, 2>, 4> carried = {{
      {&transport_counter(rdma::Transport::http, "in"), &transport_counter(rdma::Transport::http, "out")},
      {&transport_counter(rdma::Transport::tcp, "in"), &transport_counter(rdma::Transport::tcp, "out")},
      {&transport_counter(rdma::Transport::shared_memory, "in"),
       &transport_counter(rdma::Transport::shared_memory, "out")},
      {&transport_counter(rdma::Transport::rdma, "in"), &transport_counter(rdma::Transport::rdma, "out")},
  }};
  const std::array<metrics::Counter*, 2> declines = {&decline_counter("in"), &decline_counter("out")};
  metrics::Counter& fallbacks = metrics::counter("verbena_token_fallbacks_total",
                                                 "GETs whose transfer by token failed and went on as HTTP bodies.");
  metrics::Counter& failures = metrics::counter("verbena_token_failures_total", "PUTs whose transfer by token failed.");

  static const DoorMetrics& get() {
    static const DoorMetrics all;
    return all;
  }
};

}  // namespace

void register_door_metrics() { DoorMetrics::get(); }

void count_bytes(Door door, rdma::Transport transport, Direction direction, uint64_t bytes) {
  const DoorMetrics& all = DoorMetrics::get();
  all.bytes[static_cast<size_t>(door)][static_cast<size_t>(direction)]->add(bytes);
  all.carried[static_cast<size_t>(transport)][static_cast<size_t>(direction)]->add(bytes);
}

void count_decline(Direction direction) { DoorMetrics::get().declines[static_cast<size_t>(direction)]->add(); }

void count_fallback() { DoorMetrics::get().fallbacks.add(); }

void count_failure() { DoorMetrics::get().failures.add(); }

}  // namespace verbena::call
