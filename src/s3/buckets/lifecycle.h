// What requests see of a bucket's lifecycle.
#pragma once

#include <memory>
#include <vector>

#include "s3/buckets/lifecycle_rules.h"
#include "s3/context.h"

namespace verbena::s3 {

struct BucketAccess;

// The bucket's rules; empty when it has none. Parsed once per change of the document.
Task<Result<std::shared_ptr<const std::vector<LifecycleRule>>>> lifecycle_rules(store::Store& store,
                                                                                std::string bucket);
// Likewise, of that document.
Result<std::shared_ptr<const std::vector<LifecycleRule>>> lifecycle_rules_of(const std::string& document);

// False: no rule of the bucket expires anything, and add_expiration_header() is not worth a call.
bool may_expire(const Context& context);
// x-amz-expiration, when a rule will expire the object.
void add_expiration_header(ReplyHeaders& out, const BucketAccess& access, std::string_view key,
                           const store::ObjectInfo& info);
Task<> add_expiration_header(Context& context, const store::ObjectInfo& info);

}  // namespace verbena::s3
