// A request of S3 over HTTP: signature, payload, router, answer. Internal to http/.
#pragma once

#include <optional>

#include "http/serving.h"

namespace verbena::http {

// Serves any request, with what try_serve() has found out already.
Task<void> serve_s3(HandlerContext& context, Exchange& exchange, Serving& serving);

// A GET or HEAD of what lies in memory, at once. nullopt: serve_s3() is the next call; nothing was sent. Where the
// result says `reply`, `serving.response` is to be sent; its `rest`, where there is one, is to be waited for.
std::optional<s3::Router::Sent> try_serve(HandlerContext& context, Exchange& exchange, Serving& serving);
// Whether what became of that `rest` is an error that can still be answered: by `serving.response`.
bool has_answer(Exchange& exchange, Serving& serving, const Result<void>& sent);

}  // namespace verbena::http
