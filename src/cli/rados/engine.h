// The parts of `verbena-rados` that `verbena` lacks.
#pragma once

#include "cli/rados_engine.h"

namespace verbena::cli {

RadosEngine rados_engine();

}  // namespace verbena::cli
