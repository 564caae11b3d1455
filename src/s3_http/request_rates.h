// The rates of requests (docs/quotas.md), for the HTTP form of verbs.
#pragma once

#include "s3_http/context.h"

namespace verbena::s3 {

// Charges `requests` of the caller on the context's bucket, before anything is done. slow_down, with Retry-After among
// the error's headers: caller or bucket has had its share of this second.
Task<Result<void>> count_requests(Context& context, uint64_t requests);

}  // namespace verbena::s3
