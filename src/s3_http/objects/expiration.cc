#include "s3_http/objects/expiration.h"

#include "s3/access/access.h"
#include "s3/objects/expiration.h"

namespace verbena::s3 {

bool may_expire(const Context& context) {
  const BucketAccess* const access = cached_access(context.service, context.bucket);
  return access == nullptr || access->lifecycle != nullptr;
}

Task<> add_expiration_header(Context& context, const store::ObjectInfo& info) {
  const auto found = co_await bucket_access(context.service, context.bucket);
  if (!found) co_return;
  add_expiration_header(context.response.headers, **found, context.key, info);
}

}  // namespace verbena::s3
