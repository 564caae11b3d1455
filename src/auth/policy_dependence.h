// Whether a policy's decision on an action may differ between requests of a principal.
#pragma once

#include <string_view>

#include "auth/principal.h"

namespace verbena::auth {

// True if it has conditions or variables, except conditions on s3express:SessionMode, which is constant in a session.
bool depends_on_request(const Policy& policy);
// Likewise for any policy of the principal.
bool depends_on_request(const Principal& principal);

// Whether its decision may differ between two resources whose names begin with `prefix`: it has conditions or variables
// of any kind, or a resource pattern that matches some of these names and not others.
bool depends_on_resource(const Policy& policy, std::string_view prefix);
bool depends_on_resource(const Principal& principal, std::string_view prefix);

}  // namespace verbena::auth
