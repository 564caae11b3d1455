// The model for a program that is linked with librados: preloaded (LD_PRELOAD), it is the cluster. Its pools are `data`
// and `index`.
#include <cstdlib>

#include "simulator/rados_model.h"

namespace verbena::simulator {
namespace {

const bool started = [] {
  const char* seed = std::getenv("VERBENA_RADOS_MODEL_SEED");
  RadosModel& model = RadosModel::get();
  model.add_pool("data");
  model.add_pool("index");
  model.start(seed == nullptr ? 1 : std::stoull(seed));
  return true;
}();

}  // namespace
}  // namespace verbena::simulator
