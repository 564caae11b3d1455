// What the rights to a call depend on besides its request.
#pragma once

#include <string_view>

#include "base/clock.h"

namespace verbena::iam {

struct Surroundings {
  const WallClock& clock;
  std::string_view region;  // of the server
};

}  // namespace verbena::iam
