// The metrics of sealed connections.
#pragma once

#include "base/metrics.h"

namespace verbena::fabric::sealed {

struct Counters {
  metrics::Counter& opened =
      metrics::counter("verbena_sealed_connections_total", "Sealed connections that were opened");
  metrics::Counter& bytes_out =
      metrics::counter("verbena_sealed_bytes_total", "Payload of sealed records", {{"direction", "to_client"}});
  metrics::Counter& bytes_in =
      metrics::counter("verbena_sealed_bytes_total", "Payload of sealed records", {{"direction", "to_server"}});
  metrics::Counter& forged_messages =
      metrics::counter("verbena_sealed_refused_total", "What was forged, changed, repeated or plain and was refused",
                       {{"what", "message"}});
  metrics::Counter& forged_records =
      metrics::counter("verbena_sealed_refused_total", "What was forged, changed, repeated or plain and was refused",
                       {{"what", "record"}});
  metrics::Counter& plain_messages =
      metrics::counter("verbena_sealed_refused_total", "What was forged, changed, repeated or plain and was refused",
                       {{"what", "plain_message"}});
};
inline Counters& counters() {
  static Counters all;
  return all;
}

}  // namespace verbena::fabric::sealed
