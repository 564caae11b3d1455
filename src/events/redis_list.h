// Events pushed to a list of a Redis server, which consumers take from its front (BLPOP, BLMOVE).
#pragma once

#include <memory>

#include "events/target.h"
#include "events/target_settings.h"

namespace verbena::events {

// Calls block, each for as long as the settings' timeout.
std::unique_ptr<Target> make_redis_list(const TargetSettings& settings);

}  // namespace verbena::events
