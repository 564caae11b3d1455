// CORS on requests: the preflight (OPTIONS), and the headers that every other answer to a browser carries.
#pragma once

#include "s3_http/context.h"

namespace verbena::s3 {

// For a request with an Origin to a bucket that allows it: Access-Control-* on whatever the answer will be.
Task<void> add_cors_headers(Context& context);

}  // namespace verbena::s3
