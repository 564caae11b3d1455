// CORS on requests: the preflight (OPTIONS), and the headers of all other answers to browsers.
#pragma once

#include "s3_http/context.h"

namespace verbena::s3 {

// For a request with an Origin that the bucket allows: adds Access-Control-* to the answer, including errors.
Task<void> add_cors_headers(Context& context);

}  // namespace verbena::s3
