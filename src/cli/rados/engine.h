// What `verbena-rados` has that `verbena` has not.
#pragma once

#include "cli/rados_engine.h"

namespace verbena::cli {

RadosEngine rados_engine();

}  // namespace verbena::cli
