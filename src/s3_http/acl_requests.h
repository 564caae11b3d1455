// Access control lists as requests ask for them.
#pragma once

#include <string>
#include <string_view>

#include "s3/access/access.h"
#include "s3/grant.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// x-amz-acl and x-amz-grant-*. invalid_argument, invalid_request (both), unresolvable_email, invalid_grantee.
Result<AclWish> read_acl_headers(const Context& context);

// What PutBucketAcl and PutObjectAcl bring: headers, else a document.
struct AclRequest {
  AclWish wish;
  std::string text;
};
// Errors as read_acl_headers() and read_document().
Task<Result<AclRequest>> read_acl_request(Context& context);
// What such a request is to set on what belongs to `owner`. access_denied, and errors as parse_acl() and allowed_acl().
Result<Acl> wanted_acl(const Context& context, const AclRequest& request, const BucketAccess& access,
                       std::string_view owner);

}  // namespace verbena::s3
