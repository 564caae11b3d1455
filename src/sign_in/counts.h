// Who signed in, and who was refused: counted from the start, at nought.
#pragma once

#include <cstdint>

#include "base/metrics.h"

namespace verbena::sign_in {

// By whose word; `none`: the call was none of these.
enum class By : uint8_t { none, web_identity, ldap, certificate };

metrics::Counter& sign_ins_counter(By by, bool good);

}  // namespace verbena::sign_in
