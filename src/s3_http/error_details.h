// Elements of <Error> beyond code and message, as AWS adds them.
#pragma once

#include "s3_http/context.h"

namespace verbena::s3 {

// Adds to context.error_fields what AWS tells with an error of that code. What a verb has put there stays.
void add_error_details(Context& context, Errc code);

// Of a request that was refused before it was looked at (its signature, the framing of its body).
Headers refusal_details(const Request& request, const Error& error, int64_t now_s);

}  // namespace verbena::s3
