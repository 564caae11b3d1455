// Access control lists of buckets, read and set.
#include "s3/access/acl.h"
#include "s3/access/authorize.h"
#include "s3/documents/bucket_document.h"
#include "s3_http/acl_requests.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {

Task<Result<void>> serve_bucket_acl(Context& context) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  context.reply_xml(acl_xml(context.service, access->lists_count() ? access->acl : private_acl(access->owner)));
  co_return Result<void>();
}

Task<Result<void>> serve_put_bucket_acl(Context& context) {
  VB_CO_ASSIGN(const AclRequest request, co_await read_acl_request(context));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  VB_CO_ASSIGN(const Acl acl, wanted_acl(context, request, *access, access->owner));
  if (is_private(acl)) co_return co_await drop_document(context.service, context.made_bucket(), acl_document);
  co_return co_await keep_document(context.service, context.made_bucket(), acl_document, encode_acl(acl));
}

}  // namespace verbena::s3
