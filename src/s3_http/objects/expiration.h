// x-amz-expiration of an answer.
#pragma once

#include <memory>
#include <vector>

#include "s3_http/context.h"

namespace verbena::s3 {

// False: no rule of the bucket expires anything, and add_expiration_header() is not worth a call.
bool may_expire(const Context& context);

Task<> add_expiration_header(Context& context, const store::ObjectInfo& info);

}  // namespace verbena::s3
