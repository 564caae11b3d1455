// Buckets with a bound (buckets/bound.cc), which excludes versions and object lock.
#pragma once

#include "s3_http/context.h"

namespace verbena::s3 {

// invalid_bucket_state: the bucket has a bound.
Task<Result<void>> check_unbounded(Context& context);

}  // namespace verbena::s3
