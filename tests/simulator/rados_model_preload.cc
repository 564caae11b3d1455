// The model for a program that is linked with librados: preloaded (LD_PRELOAD), it is the cluster, and the program's
// threads take turns in virtual time. The pools are `data` and `index`.
#include <cstdlib>

#include "simulator/rados_model.h"
#include "simulator/scheduler.h"

namespace verbena::simulator {
namespace {

const bool started = [] {
  const char* text = std::getenv("VERBENA_RADOS_MODEL_SEED");
  const uint64_t seed = text == nullptr ? 1 : std::stoull(text);
  Scheduler::get().start(seed);
  RadosModel& model = RadosModel::get();
  model.add_pool("data");
  model.add_pool("index");
  model.start(seed);
  return true;
}();

}  // namespace
}  // namespace verbena::simulator
