// A body that must be complete before it is processed: a document, a call, a form's fields. It is held on the heap, but
// charged to its peer's share of the budget like all received data, so that many slow or large ones cannot take the
// memory of the others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memory/budget.h"
#include "memory/stream.h"

namespace verbena::memory {

struct WholeBody {
  WholeBody() = default;
  WholeBody(WholeBody&&) = default;
  WholeBody& operator=(WholeBody&&) = default;
  std::string text;
  std::vector<Charge> charged;  // kept as long as the text, or data derived from it
};

// Reads `body` to its end. Takes memory only as bytes arrive. too_large: more than `bytes_max`, also when that is
// declared; slow_down: no memory for it for too long; and the body's own errors.
Task<Result<WholeBody>> read_whole(Source& body, Arena& arena, std::string_view peer, size_t bytes_max);

}  // namespace verbena::memory
