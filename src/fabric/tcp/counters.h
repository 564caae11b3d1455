// Metrics of the transport.
#pragma once

#include "base/metrics.h"

namespace verbena::fabric::tcp {

struct Counters {
  metrics::Counter& accepted =
      metrics::counter("verbena_tcp_accepted_total", "Connections accepted by the native door's TCP ports");
  metrics::Counter& authenticated =
      metrics::counter("verbena_tcp_authenticated_total", "Connections that showed a session's key");
  metrics::Counter& refused = metrics::counter("verbena_tcp_refused_total",
                                               "Connections refused: garbage, a wrong key, slow, or too many at once");
  metrics::Counter& violations =
      metrics::counter("verbena_tcp_violations_total", "Authenticated peers cut off because they broke the protocol");
  metrics::Counter& stalled =
      metrics::counter("verbena_tcp_stalled_total", "Peers cut off because they took or sent nothing in time");
  metrics::Gauge& connections = metrics::gauge("verbena_tcp_connections", "Authenticated connections now open");
  metrics::Gauge& queued =
      metrics::gauge("verbena_tcp_queued_bytes", "Bytes copied or sealed that wait for peers to take them");

  static Counters& get() {
    static Counters counters;
    return counters;
  }
};

}  // namespace verbena::fabric::tcp
