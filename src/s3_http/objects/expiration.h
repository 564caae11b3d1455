// x-amz-expiration of an answer.
#pragma once

#include <memory>
#include <vector>

#include "s3_http/context.h"

namespace verbena::s3 {

// False: no rule of the bucket expires anything, so add_expiration_header() need not be called.
bool may_expire(const Context& context);

Task<> add_expiration_header(Context& context, const store::ObjectInfo& info);

}  // namespace verbena::s3
