// Whether what a policy says of an action may differ from one request of a principal to the next.
#pragma once

#include <string_view>

#include "auth/principal.h"

namespace verbena::auth {

// It has conditions or variables, but for conditions on s3express:SessionMode, which is the same in all of a session.
bool depends_on_request(const Policy& policy);
// Likewise for any policy of the principal.
bool depends_on_request(const Principal& principal);

// Whether what it says may differ between two resources whose names begin with `prefix`: it has conditions or variables
// of whatever kind, or a resource that some of these names fit and others do not.
bool depends_on_resource(const Policy& policy, std::string_view prefix);
bool depends_on_resource(const Principal& principal, std::string_view prefix);

}  // namespace verbena::auth
