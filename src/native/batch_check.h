// Checks by which a batch is refused as a whole, before any of it is executed.
#pragma once

#include "native/wire/batch.h"

namespace verbena::native {

// invalid_request: malformed, a bucket named twice, windows or places that overlap (GET_MANY), a progress word that
// does not lie in its window, a key that is written twice.
Result<void> check_batch(Bytes body, wire::Type type);

}  // namespace verbena::native
