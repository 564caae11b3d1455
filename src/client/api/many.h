// Batches of the public client: checks before anything is sent.
#pragma once

#include <span>

#include "client/outcome.h"

namespace verbena::client {

// invalid_argument: too many items, a missing result, a place outside its window; of a get, overlapping places; of a
// put or remove, a key named twice.
Outcome<> check_items(std::span<const BatchItem> items, std::span<const std::span<std::byte>> windows, size_t results,
                      bool reads_into, bool has_places, bool writes);

}  // namespace verbena::client
