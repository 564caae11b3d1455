// The bucket's lifecycle, as requests use it.
#pragma once

#include <memory>
#include <vector>

#include "s3/buckets/lifecycle_rules.h"
#include "s3/context.h"

namespace verbena::s3 {

struct BucketAccess;

// The bucket's rules; empty if it has none. Parsed once per change of the document.
Task<Result<std::shared_ptr<const std::vector<LifecycleRule>>>> lifecycle_rules(store::Store& store,
                                                                                std::string bucket);
// The same from the document's text.
Result<std::shared_ptr<const std::vector<LifecycleRule>>> lifecycle_rules_of(const std::string& document);

// False: no rule of the bucket expires anything, so add_expiration_header() need not be called.
bool may_expire(const Context& context);
// Adds x-amz-expiration if a rule will expire the object.
void add_expiration_header(ReplyHeaders& out, const BucketAccess& access, std::string_view key,
                           const store::ObjectInfo& info);
Task<> add_expiration_header(Context& context, const store::ObjectInfo& info);

}  // namespace verbena::s3
