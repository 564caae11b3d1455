// Configurations of a bucket that are stored and returned: CORS, tags, ownership controls, the public access block.
#include "s3_http/buckets/bucket_document.h"

#include "s3/access/ownership.h"
#include "s3/access/public_access.h"
#include "s3/documents/bucket_document.h"
#include "s3/tag_set.h"
#include "s3_http/buckets/cors.h"
#include "s3_http/checksum_headers.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t document_bytes_max = 64 * KiB;  // of a request (AWS's limit for CORS; the others are smaller)

Task<Result<void>> reply_document(Context& context, std::string_view name, Errc missing) {
  VB_CO_ASSIGN(const store::Document document, co_await read_bucket_document(context, name, missing));
  context.reply_xml(*document);
  co_return Result<void>();
}

Task<Result<void>> put_document(Context& context, std::string_view name, std::string xml) {
  co_return co_await keep_document(context.service, context.made_bucket(), name, std::move(xml));
}

Task<Result<void>> delete_document(Context& context, std::string_view name) {
  VB_CO_TRY(co_await drop_document(context.service, context.made_bucket(), name));
  reply_no_content(context);
  co_return Result<void>();
}

}  // namespace

Task<Result<store::Document>> read_bucket_document(Context& context, std::string_view name, Errc missing) {
  auto document = co_await context.service.store.document(context.bucket, name);
  if (!document && document.error() == Errc::not_found) co_return fail(missing, "bucket document");
  co_return document;
}

Task<Result<void>> serve_get_bucket_cors(Context& context) {
  co_return co_await reply_document(context, cors_document, Errc::no_such_cors);
}

Task<Result<void>> serve_put_bucket_cors(Context& context) {
  VB_CO_TRY(require_digest(context));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, document_bytes_max));
  VB_CO_ASSIGN(const auto rules, parse_cors(text));
  co_return co_await put_document(context, cors_document, cors_xml(rules));
}

Task<Result<void>> serve_delete_bucket_cors(Context& context) {
  co_return co_await delete_document(context, cors_document);
}

// A set without tags is stored as none.
Task<Result<void>> serve_get_bucket_tagging(Context& context) {
  static const std::string empty = tagging_xml({});
  VB_CO_ASSIGN(const store::Document document,
               co_await read_bucket_document(context, tagging_document, Errc::no_such_tag_set));
  if (*document == empty) co_return fail(Errc::no_such_tag_set, "bucket document");
  context.reply_xml(*document);
  co_return Result<void>();
}

Task<Result<void>> serve_put_bucket_tagging(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, document_bytes_max));
  VB_CO_ASSIGN(const auto tags, parse_tagging(text, bucket_tags_max));
  VB_CO_TRY(co_await put_document(context, tagging_document, tagging_xml(tags)));
  reply_no_content(context);  // as at AWS; the other configurations answer 200
  co_return Result<void>();
}

Task<Result<void>> serve_delete_bucket_tagging(Context& context) {
  co_return co_await delete_document(context, tagging_document);
}

Task<Result<void>> serve_get_ownership_controls(Context& context) {
  co_return co_await reply_document(context, ownership_document, Errc::no_such_ownership_controls);
}

Task<Result<void>> serve_put_ownership_controls(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, document_bytes_max));
  VB_CO_ASSIGN(const Ownership ownership, parse_ownership(text));
  if (ownership == Ownership::bucket_owner_enforced) {
    // ACLs that grant to others would silently stop to count.
    VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
    if (!is_private(access->acl)) {
      co_return fail(Errc::invalid_bucket_acl, "ownership: the bucket's list gives to others");
    }
  }
  co_return co_await put_document(context, ownership_document, ownership_xml(ownership));
}

Task<Result<void>> serve_delete_ownership_controls(Context& context) {
  co_return co_await delete_document(context, ownership_document);
}

Task<Result<void>> serve_get_public_access_block(Context& context) {
  co_return co_await reply_document(context, public_access_document, Errc::no_such_public_access_block);
}

Task<Result<void>> serve_put_public_access_block(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, document_bytes_max));
  VB_CO_ASSIGN(const PublicAccessBlock block, parse_public_access(text));
  co_return co_await put_document(context, public_access_document, public_access_xml(block));
}

Task<Result<void>> serve_delete_public_access_block(Context& context) {
  co_return co_await delete_document(context, public_access_document);
}

}  // namespace verbena::s3
