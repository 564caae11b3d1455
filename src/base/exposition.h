// The metrics in a scraper's format.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"

namespace verbena::metrics {

enum class Format : uint8_t {
  text,          // Prometheus' text format 0.0.4
  open_metrics,  // OpenMetrics 1.0, which has exemplars
};
// The format requested by an Accept header: OpenMetrics if it is named and not refused (q=0).
Format format_of(std::string_view accept);
std::string_view content_type(Format format);
std::string exposition(Format format);

// Counters and gauges with changing sets of labels, such as names of buckets. `collect` runs at each exposition, one at
// a time, for the whole program.
struct Collected {
  std::string name, help;
  struct Sample {
    Labels labels;
    double value = 0;
  };
  std::vector<Sample> samples;
  bool is_gauge = false;
};
void collect_counters(std::function<void(std::vector<Collected>&)> collect);

}  // namespace verbena::metrics
