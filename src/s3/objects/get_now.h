// A GET that is served where it stands: no coroutine, nothing waited for.
#pragma once

#include <optional>

#include "s3/context.h"

namespace verbena::s3 {

// Whether a GET with these headers asks for an object's bytes and nothing else: no condition, no encryption, no origin,
// no body; a range may be.
bool asks_for_bytes_alone(HeaderSpan headers);

// Of such a request without a query, its bucket and key set, where the object is in memory. nullopt: it has to be
// served by serve_get_object(), which also says what is wrong with it; nothing was sent, and the response may have
// headers; `found` has what lies in memory of it, if anything. Else the response is filled, and of the object is sent
// what send_now() says.
struct Given {
  OpenObject object{};
  std::optional<Result<bool>> sent{};
};
std::optional<Given> get_object_now(Context& context, std::shared_ptr<store::ObjectReader>& found);

}  // namespace verbena::s3
