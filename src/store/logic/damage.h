// Errors that say that what is stored is damaged, and not that it cannot be read at the moment.
#pragma once

#include "base/result.h"

namespace verbena::store {

// The index's own checks failed (corrupt_object), or a row has another form than any that is written (malformed).
inline bool is_damage(const Error& error) { return error == Errc::corrupt_object || error == Errc::malformed; }

}  // namespace verbena::store
