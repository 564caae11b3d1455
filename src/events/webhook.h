// Events as HTTP requests: each is a POST with the record as its JSON body, and any 2xx confirms it. Redirections are
// not followed.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "events/target.h"
#include "events/target_settings.h"

namespace verbena::events {

// The error is a sentence: certificates that cannot be read.
std::expected<std::unique_ptr<Target>, std::string> make_webhook(const TargetSettings& settings);

}  // namespace verbena::events
