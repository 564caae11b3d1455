// Access control lists as headers ask for them.
#pragma once

#include "base/result.h"
#include "s3/access/grant.h"

namespace verbena::s3 {

struct Context;

// x-amz-acl and x-amz-grant-*. invalid_argument, invalid_request (both), unresolvable_email, invalid_grantee.
Result<AclWish> read_acl_headers(const Context& context);

}  // namespace verbena::s3
