// Metrics of the fabric.
#pragma once

#include "base/metrics.h"

namespace verbena::fabric::ofi {

struct DataMetrics {
  metrics::Counter& windows;
  metrics::Counter& writes;
  metrics::Counter& reads;
  metrics::Counter& written_bytes;
  metrics::Counter& read_bytes;
  metrics::Counter& endpoints_opened;
  metrics::Gauge& endpoints;

  static DataMetrics& of_process() {
    static DataMetrics all{
        metrics::counter("verbena_fabric_windows_total", "Windows opened on data endpoints"),
        metrics::counter("verbena_fabric_operations_total", "One-sided operations completed", {{"op", "write"}}),
        metrics::counter("verbena_fabric_operations_total", "One-sided operations completed", {{"op", "read"}}),
        metrics::counter("verbena_fabric_bytes_total", "Bytes moved by one-sided operations", {{"op", "write"}}),
        metrics::counter("verbena_fabric_bytes_total", "Bytes moved by one-sided operations", {{"op", "read"}}),
        metrics::counter("verbena_fabric_data_endpoints_opened_total", "Data endpoints opened"),
        metrics::gauge("verbena_fabric_data_endpoints", "Data endpoints open now"),
    };
    return all;
  }
};

// reason: deadline, unreachable, failed, closed, peer_removed.
inline metrics::Counter& operation_failures(const char* reason) {
  return metrics::counter("verbena_fabric_operation_failures_total", "One-sided operations that failed",
                          {{"reason", reason}});
}
inline metrics::Counter& endpoints_recycled(const char* reason) {
  return metrics::counter("verbena_fabric_data_endpoints_recycled_total", "Data endpoints closed before their time",
                          {{"reason", reason}});
}

}  // namespace verbena::fabric::ofi
