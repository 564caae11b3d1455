// Whether what a policy says of an action may differ from one request of a principal to the next.
#pragma once

#include "auth/principal.h"

namespace verbena::auth {

// It has conditions or variables, but for conditions on s3express:SessionMode, which is the same in all of a session.
bool depends_on_request(const Policy& policy);
// Likewise for any policy of the principal.
bool depends_on_request(const Principal& principal);

}  // namespace verbena::auth
