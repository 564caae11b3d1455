// Who signed in, and who was refused: counted from the start, at nought.
#pragma once

#include "base/metrics.h"

namespace verbena::sign_in {

metrics::Counter& sign_ins_counter(bool good);

}  // namespace verbena::sign_in
