// Parser of target URLs: target_settings.h lists the forms.
#pragma once

#include <string_view>

#include "events/target_settings.h"

namespace verbena::events {

// Visible ASCII characters only, no blanks.
bool is_visible(std::string_view text);

// False: an unknown form. Fills in type, tls, host, port and the destination's name.
bool parse_target_url(std::string_view url, TargetSettings& target);

}  // namespace verbena::events
