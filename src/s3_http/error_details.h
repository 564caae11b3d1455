// Elements of <Error> beyond code and message, as AWS adds them.
#pragma once

#include "s3_http/context.h"

namespace verbena::s3 {

// Adds the elements that AWS has for this error to context.error_fields. Elements added by a verb stay.
void add_error_details(Context& context, Errc code);

// For a request that was refused before it was routed (for its signature, or its body's framing).
Headers refusal_details(const Request& request, const Error& error, int64_t now_s);

}  // namespace verbena::s3
