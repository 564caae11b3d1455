#include "base/hand_over.h"

#include "base/histogram.h"

namespace verbena {
namespace {

metrics::Histogram& waits() {
  static auto& histogram =
      metrics::histogram("verbena_queue_wait_seconds", "Waits for a limited resource", {{"queue", "core"}});
  return histogram;
}

}  // namespace

HandOver::HandOver() {
  waits();  // before the time is read
  given_ = ticks();
}

void HandOver::taken() const { waits().observe_since(given_); }

}  // namespace verbena
