// GET and HEAD without a coroutine, for objects in memory.
#pragma once

#include <optional>

#include "s3_http/context.h"

namespace verbena::s3 {

// Whether a GET or HEAD with these headers is plain: no condition, encryption, origin or body. A range is allowed.
bool asks_for_object_alone(HeaderSpan headers);

// Serves a plain request without a query by the first look (ObjectRead); its bucket and key are set. nullopt:
// serve_get_object() or serve_head_object() must serve it, and report its errors; nothing was sent, the response may
// have headers, and `found` has the object if it is in memory. Else the response is filled, and for a GET `sent` has
// the result of send_now().
struct Given {
  OpenObject object{};
  Result<memory::AtOnce> sent = memory::AtOnce::unsupported;
};
std::optional<Given> try_read(Context& context, FoundObject& found);

}  // namespace verbena::s3
