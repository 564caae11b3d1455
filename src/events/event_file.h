// Events as lines of a file, each durable before it is confirmed.
#pragma once

#include <memory>

#include "events/target.h"
#include "events/target_settings.h"

namespace verbena::events {

// The file is opened for each delivery, so that it may be moved meanwhile. A partial line left by a crash is removed
// before the next is written.
std::unique_ptr<Target> make_event_file(const TargetSettings& settings);

}  // namespace verbena::events
