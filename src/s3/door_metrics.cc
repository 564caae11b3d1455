#include "s3/door_metrics.h"

#include <array>

#include "base/metrics.h"

namespace verbena::s3 {
namespace {

metrics::Counter& bytes_counter(const char* door, const char* direction) {
  return metrics::counter("verbena_door_bytes_total", "Payload bytes of objects by door.",
                          {{"door", door}, {"direction", direction}});
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
  const std::array<metrics::Counter*, 2> declines = {&decline_counter("in"), &decline_counter("out")};
  metrics::Counter& fallbacks =
      metrics::counter("verbena_token_fallbacks_total", "GETs whose RDMA transfer failed and went on as HTTP bodies.");
  metrics::Counter& failures = metrics::counter("verbena_token_failures_total", "PUTs whose RDMA transfer failed.");

  static const DoorMetrics& get() {
    static const DoorMetrics all;
    return all;
  }
};

}  // namespace

void register_door_metrics() { DoorMetrics::get(); }

void count_bytes(Door door, Direction direction, uint64_t bytes) {
  DoorMetrics::get().bytes[static_cast<size_t>(door)][static_cast<size_t>(direction)]->add(bytes);
}

void count_decline(Direction direction) { DoorMetrics::get().declines[static_cast<size_t>(direction)]->add(); }

void count_fallback() { DoorMetrics::get().fallbacks.add(); }

void count_failure() { DoorMetrics::get().failures.add(); }

}  // namespace verbena::s3
