// Reading and setting ACLs of buckets and objects.
#include "s3/access/acl.h"
#include "s3/access/authorize.h"
#include "s3/buckets/bucket_document.h"
#include "s3/events/announce.h"
#include "s3/objects/versions.h"
#include "s3/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t acl_document_max = 64 * KiB;

struct AclRequest {
  AclWish wish;      // from the headers
  std::string text;  // else the document
};

Task<Result<AclRequest>> read_acl_request(Context& context) {
  AclRequest request;
  VB_CO_ASSIGN(request.wish, read_acl_headers(context));
  VB_CO_ASSIGN(request.text, co_await read_document(context, acl_document_max));
  co_return request;
}

// The ACL that PutBucketAcl or PutObjectAcl sets on a bucket or object of `owner`.
Result<Acl> wanted_acl(const Context& context, const AclRequest& request, const BucketAccess& access,
                       std::string_view owner) {
  if (request.wish.any()) return allowed_acl(access, make_acl(request.wish, owner, access.owner), request.wish);
  VB_ASSIGN(Acl acl, parse_acl(context.service, request.text));
  if (acl.owner != owner) return fail(Errc::access_denied, "acl: the owner does not change");
  return allowed_acl(access, std::move(acl), request.wish);
}

}  // namespace

Task<Result<void>> serve_bucket_acl(Context& context) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  context.reply_xml(acl_xml(context.service, access->lists_count() ? access->acl : private_acl(access->owner)));
  co_return Result<void>();
}

Task<Result<void>> serve_put_bucket_acl(Context& context) {
  VB_CO_ASSIGN(const AclRequest request, co_await read_acl_request(context));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  VB_CO_ASSIGN(const Acl acl, wanted_acl(context, request, *access, access->owner));
  if (is_private(acl)) co_return co_await drop_document(context.service, context.bucket, acl_document);
  co_return co_await keep_document(context.service, context.bucket, acl_document, encode_acl(acl));
}

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
