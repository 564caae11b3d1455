// Metrics of the same-host transport.
#pragma once

#include "base/metrics.h"

namespace verbena::fabric::local {

struct Counters {
  metrics::Counter& peers = metrics::counter("verbena_local_peers_total", "Clients that shook hands on a Unix socket");
  metrics::Counter& refused =
      metrics::counter("verbena_local_refused_total", "Connections refused: garbage, slow or too many");
  metrics::Counter& violations = metrics::counter("verbena_local_violations_total",
                                                  "Clients dropped because they broke the ring or socket protocol");
  metrics::Counter& memory_refused = metrics::counter("verbena_local_memory_refused_total",
                                                      "Memory descriptors refused: unsealed, wrong size or too much");
  metrics::Counter& doorbells =
      metrics::counter("verbena_local_doorbells_total", "Clients that rang because their ring was not polled");
  metrics::Counter& wakes = metrics::counter("verbena_local_wakes_total", "Wake-ups sent to sleeping clients");

  static Counters& get() {
    static Counters counters;
    return counters;
  }
};

}  // namespace verbena::fabric::local
