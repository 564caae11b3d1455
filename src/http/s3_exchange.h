// A request of S3 over HTTP: signature, payload, router, answer. Internal to http/.
#pragma once

#include <optional>

#include "http/serving.h"

namespace verbena::http {

// Serves any request, reusing the results of try_serve().
Task<void> serve_s3(HandlerContext& context, Exchange& exchange, Serving& serving);

// Serves a GET or HEAD of an object in memory at once. nullopt: call serve_s3() next; nothing was sent. If the result
// has `reply`, `serving.response` must be sent; its `rest`, if any, must be awaited.
std::optional<s3::Router::Sent> try_serve(HandlerContext& context, Exchange& exchange, Serving& serving);
// Whether `rest` failed in a way that can still be answered, by `serving.response`.
bool has_answer(Exchange& exchange, Serving& serving, const Result<void>& sent);

}  // namespace verbena::http
