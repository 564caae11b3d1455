// What a target's URL says: target_settings.h lists the forms.
#pragma once

#include <string_view>

#include "events/target_settings.h"

namespace verbena::events {

// Without blanks and what is not ASCII.
bool is_visible(std::string_view text);

// False: it is of no form that is known. Fills in type, tls, host, port and what names the place there.
bool parse_target_url(std::string_view url, TargetSettings& target);

}  // namespace verbena::events
