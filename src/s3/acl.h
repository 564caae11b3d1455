// The one access control list there is: the owner may do everything.
#pragma once

#include <string>
#include <string_view>

#include "s3/context.h"

namespace verbena::s3 {

std::string owner_acl_xml();

// <AccessControlPolicy> of a request: fine when it is the one there is. malformed_acl, not_implemented.
Result<void> check_acl_document(std::string_view text);

// The body or x-amz-acl of PutBucketAcl and PutObjectAcl.
Task<Result<void>> accept_acl(Context& context);

}  // namespace verbena::s3
