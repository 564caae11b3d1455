// Access control lists of buckets and objects, read and set.
#include "s3/acl.h"
#include "s3/authorize.h"
#include "s3/bucket_document.h"
#include "s3/verbs.h"
#include "s3/versions.h"

namespace verbena::s3 {
namespace {

constexpr size_t acl_document_max = 64 * KiB;

// What PutBucketAcl or PutObjectAcl is to set on what belongs to `owner`.
Task<Result<Acl>> read_acl_request(Context& context, const BucketAccess& access, std::string_view owner) {
  VB_CO_ASSIGN(const AclWish wish, read_acl_headers(context));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, acl_document_max));
  Acl acl;
  if (wish.any()) {
    acl = make_acl(wish, owner, access.owner);
  } else {
    VB_CO_ASSIGN(acl, parse_acl(context.service, text));
    if (acl.owner != owner) co_return fail(Errc::access_denied, "acl: the owner does not change");
  }
  if (!access.lists_count()) {
    if (is_private(acl) || wish.canned == "bucket-owner-full-control") co_return private_acl(owner);
    co_return fail(Errc::acl_not_supported, "acl: bucket owner enforced");
  }
  if (access.block.block_acls && is_public(acl)) co_return fail(Errc::access_denied, "acl: public lists are blocked");
  co_return acl;
}

}  // namespace

Task<Result<void>> serve_bucket_acl(Context& context) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  context.reply_xml(acl_xml(context.service, access->lists_count() ? access->acl : private_acl(access->owner)));
  co_return Result<void>();
}

Task<Result<void>> serve_put_bucket_acl(Context& context) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  VB_CO_ASSIGN(const Acl acl, co_await read_acl_request(context, *access, access->owner));
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
  // Before the document is read: who may not set it is not told what is wrong with it.
  VB_CO_ASSIGN(const store::ObjectInfo info, co_await stat_version(context, action::put_object_acl));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  VB_CO_ASSIGN(const Acl acl, co_await read_acl_request(context, *access, object_acl(*access, info).owner));
  if (!access->lists_count()) co_return Result<void>();
  store::ObjectChange change;
  change.attributes = acl_change(*access, acl);
  co_return co_await update_version(context, action::put_object_acl, std::move(change));
}

}  // namespace verbena::s3
