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

}  // namespace

void count_bytes(Door door, Direction direction, uint64_t bytes) {
  static const std::array<std::array<metrics::Counter*, 2>, 3> counters = {{
      {&bytes_counter("http", "in"), &bytes_counter("http", "out")},
      {&bytes_counter("token", "in"), &bytes_counter("token", "out")},
      {&bytes_counter("native", "in"), &bytes_counter("native", "out")},
  }};
  counters[static_cast<size_t>(door)][static_cast<size_t>(direction)]->add(bytes);
}

void count_decline(Direction direction) {
  static const std::array<metrics::Counter*, 2> counters = {&decline_counter("in"), &decline_counter("out")};
  counters[static_cast<size_t>(direction)]->add();
}

void count_fallback() {
  static metrics::Counter& counter =
      metrics::counter("verbena_token_fallbacks_total", "GETs whose RDMA transfer failed and went on as HTTP bodies.");
  counter.add();
}

void count_failure() {
  static metrics::Counter& counter =
      metrics::counter("verbena_token_failures_total", "PUTs whose RDMA transfer failed.");
  counter.add();
}

}  // namespace verbena::s3
