// Counters of accepted and refused sign-ins, present from the start.
#pragma once

#include <cstdint>

#include "base/metrics.h"

namespace verbena::sign_in {

// The authenticating party; `none`: the call was not a sign-in.
enum class By : uint8_t { none, web_identity, ldap, certificate };

metrics::Counter& sign_ins_counter(By by, bool good);

}  // namespace verbena::sign_in
