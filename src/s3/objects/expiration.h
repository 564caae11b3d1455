// When a rule of the bucket will expire an object.
#pragma once

#include <string_view>

#include "s3/access/access.h"
#include "s3/reply_headers.h"

namespace verbena::s3 {

// Adds x-amz-expiration if a rule will expire the object.
void add_expiration_header(ReplyHeaders& out, const BucketAccess& access, std::string_view key,
                           const store::ObjectInfo& info);

}  // namespace verbena::s3
