#include "base/handoff.h"

#include "base/histogram.h"

namespace verbena {
namespace {

metrics::Histogram& waits() {
  static auto& histogram =
      metrics::histogram("verbena_queue_wait_seconds", "Waits for a limited resource", {{"queue", "core"}});
  return histogram;
}

}  // namespace

Handoff::Handoff() {
  waits();  // before the time is read
  given_ = ticks();
}

void Handoff::taken() const { waits().observe_since(given_); }

}  // namespace verbena
