// GET and HEAD that are served where they stand: no coroutine, nothing waited for.
#pragma once

#include <optional>

#include "s3_http/context.h"

namespace verbena::s3 {

// Whether a GET or HEAD with these headers asks for an object and nothing else: no condition, no encryption, no origin,
// no body; a range may be.
bool asks_for_object_alone(HeaderSpan headers);

// Of such a request without a query, its bucket and key set, by the first look (ObjectRead). nullopt: it has to be
// served by serve_get_object() or serve_head_object(), which also say what is wrong with it; nothing was sent, and the
// response may have headers; `found` has what lies in memory of it, if anything. Else the response is filled, and of a
// GET's object is sent what send_now() says.
struct Given {
  OpenObject object{};
  Result<memory::AtOnce> sent = memory::AtOnce::unsupported;
};
std::optional<Given> try_read(Context& context, FoundObject& found);

}  // namespace verbena::s3
