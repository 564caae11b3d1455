// Access control lists of objects, read and set.
#include "s3/access/acl.h"
#include "s3/access/authorize.h"
#include "s3/events/announce.h"
#include "s3_http/acl_requests.h"
#include "s3_http/objects/versions.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {

Task<Result<void>> serve_object_acl(Context& context) {
  VB_CO_ASSIGN(const store::ObjectInfo info, co_await stat_version(context, action::get_object_acl));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  add_version_id(context.response, info.version_id);
  context.reply_xml(acl_xml(context.service, object_acl(*access, info)));
  co_return Result<void>();
}

Task<Result<void>> serve_put_object_acl(Context& context) {
  // Authorized before the document is read, so that callers without the right do not learn its errors.
  VB_CO_TRY(co_await stat_version(context, action::put_object_acl));
  VB_CO_ASSIGN(const AclRequest request, co_await read_acl_request(context));
  VB_CO_ASSIGN(const store::ObjectInfo info, co_await stat_version(context, action::put_object_acl));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  VB_CO_ASSIGN(const Acl acl, wanted_acl(context, request, *access, object_acl(*access, info).owner));
  if (!access->lists_count()) co_return Result<void>();
  store::ObjectChange change;
  change.attributes = acl_change(*access, acl);
  change.if_modified_us = info.modified_us;  // the ACL names this version's owner
  change.if_size = info.size;
  change.announcement = announce(context.service, *access, context.caller(), EventCause::put_acl, context.key);
  co_return co_await update_version(context, action::put_object_acl, std::move(change));
}

}  // namespace verbena::s3
