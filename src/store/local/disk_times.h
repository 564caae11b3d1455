// Durations (verbena_disk_duration_seconds{op}) and failures of disk operations. Private to this room.
#pragma once

#include "base/histogram.h"

namespace verbena::store::local {

struct DiskTimes {
  metrics::Histogram& read = of("read");          // of a volume: one call
  metrics::Histogram& write = of("write");        // to a volume
  metrics::Histogram& sync = of("sync");          // of a volume
  metrics::Histogram& log_sync = of("log_sync");  // of the index's log, with what a group of commits wrote to it

  static DiskTimes& get() {
    static DiskTimes all;
    return all;
  }

 private:
  static metrics::Histogram& of(const char* op) {
    return metrics::histogram("verbena_disk_duration_seconds", "Time that calls to the disk took", {{"op", op}});
  }
};

// Errors for which a disk is replaced. All counters exist from the start, so that a step from zero to one is visible as
// a change.
struct DiskTrouble {
  metrics::Counter& corrupt = metrics::counter("verbena_store_corrupt_reads_total", "Reads that met damaged data");
  metrics::Counter& failed = metrics::counter("verbena_store_failed_reads_total",
                                              "Reads that the disk or the system refused; the data may be sound");
  metrics::Gauge& undurable_volumes =
      metrics::gauge("verbena_store_undurable_volumes",
                     "Volumes of memory buckets that could not be synced: what they hold may be gone");
  metrics::Gauge& device_failed = metrics::gauge(
      "verbena_store_device_failed", "1: data.device failed, so nothing is written there until a restart");
  metrics::Gauge& device_bytes =
      metrics::gauge("verbena_store_device_bytes", "Bytes of data.device in all extents; 0: there is none");
  metrics::Gauge& device_free_bytes =
      metrics::gauge("verbena_store_device_free_bytes", "Bytes of data.device in extents that no volume has");

  static DiskTrouble& get() {
    static DiskTrouble all;
    return all;
  }
};

}  // namespace verbena::store::local
