// Multipart uploads: create, upload a part, abort.
#include "s3_http/objects/multipart.h"

#include "base/date.h"
#include "s3/access/authorize.h"
#include "s3/access/quota.h"
#include "s3/express/directory.h"
#include "s3/names.h"
#include "s3/objects/checksums.h"
#include "s3/objects/encryption.h"
#include "s3/objects/object_headers.h"
#include "s3/xml.h"
#include "s3_http/acl_requests.h"
#include "s3_http/checksum_headers.h"
#include "s3_http/encryption_headers.h"
#include "s3_http/headers.h"
#include "s3_http/objects/condition_headers.h"
#include "s3_http/objects/lock.h"
#include "s3_http/objects/tagging.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

// x-amz-checksum-algorithm and x-amz-checksum-type. Only CRCs can be combined into a full object's checksum, and
// CRC64NVME has no composite form: SHA, MD5 and XXHASH are COMPOSITE (AWS, "Checking object integrity").
Result<void> read_upload_checksum(const Context& context, store::UploadInfo& upload) {
  const auto type = context.header("x-amz-checksum-type");
  VB_ASSIGN(const auto algorithm, read_checksum_algorithm(context));
  if (!algorithm) {
    if (type) {
      return fail(Errc::invalid_request, "x-amz-checksum-type needs x-amz-checksum-algorithm.");
    }
    return {};
  }
  upload.checksum_algorithm = algorithm;
  upload.checksum_full_object = type ? *type == "FULL_OBJECT" : *algorithm == Algorithm::crc64nvme;
  if (upload.checksum_full_object && !can_be_combined(*algorithm)) {
    return fail(Errc::invalid_request, "The FULL_OBJECT checksum type cannot be used with this checksum algorithm.");
  }
  if (!upload.checksum_full_object && *algorithm == Algorithm::crc64nvme) {
    return fail(Errc::invalid_request, "The COMPOSITE checksum type cannot be used with the crc64nvme algorithm.");
  }
  return {};
}

// x-amz-if-match-initiated-time of AbortMultipartUpload. False: the upload does not exist, which counts as success
// (S3). The result stays valid until the removal: an upload's id is used once, and its time never changes.
Task<Result<bool>> check_initiated(Context& context, const std::string& upload_id) {
  const auto header = context.header("x-amz-if-match-initiated-time");
  if (!header) co_return true;
  const auto time_s = parse_http_date(*header);
  if (!time_s) co_return fail(Errc::invalid_argument, "A condition on time is not a date.");
  const auto upload = co_await context.service.store.upload(context.bucket, context.key, upload_id);
  if (!upload && upload.error() == Errc::no_such_upload) co_return false;
  VB_CO_TRY(upload);
  if (upload->created_us / 1'000'000 == *time_s) co_return true;
  context.error_fields.emplace_back("Condition", "x-amz-if-match-initiated-time");
  co_return fail(Errc::precondition_failed, "abort: initiated time");
}

// If-Match and If-None-Match of CreateMultipartUpload, as minio-go sends them: checked when the upload is created, so
// that no part is sent in vain, and stored with it for its completion, where they count.
Task<Result<void>> read_begin_conditions(Context& context, const BucketAccess& access, store::Attributes& kept) {
  VB_CO_ASSIGN(const store::CommitConditions conditions, read_commit_conditions(context));
  if (!conditions.if_match && !conditions.if_none_match) co_return Result<void>();
  const ObjectName name{context.key, {}};
  VB_CO_TRY(co_await authorize_conditions(context.service, context.caller(), access, name, conditions));
  const auto there = co_await context.service.store.stat(context.bucket, context.key, "");
  if (!there && there.error() != Errc::no_such_key) co_return std::unexpected(there.error());
  const auto matches = [&](const std::string& tag) { return there && (tag == "*" || tag == there->etag); };
  if (conditions.if_match && !matches(*conditions.if_match)) {
    if (!there) co_return std::unexpected(there.error());
    co_return fail(Errc::precondition_failed, "If-Match");
  }
  if (conditions.if_none_match && matches(*conditions.if_none_match)) {
    co_return fail(Errc::precondition_failed, "If-None-Match");
  }
  if (conditions.if_match) kept.emplace_back(begun_if_match, *conditions.if_match);
  if (conditions.if_none_match) kept.emplace_back(begun_if_none_match, *conditions.if_none_match);
  co_return Result<void>();
}

}  // namespace

Result<int> read_part_number(const Context& context) {
  VB_ASSIGN(const int64_t number, context.query.number("partNumber", 1, store::part_number_max, 0, bad_part_number));
  if (number == 0) return fail(Errc::invalid_argument, bad_part_number);
  return static_cast<int>(number);
}

Task<Result<void>> authorize_upload(Context& context, const Action& action) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  const Asked asked{.action = action, .key = context.key, .creates = false};
  co_return authorize(context.service, context.caller(), *access, asked);
}

Task<Result<void>> serve_create_upload(Context& context) {
  VB_CO_TRY(check_new_key(context.key));
  store::UploadInfo upload;
  upload.bucket = context.bucket;
  upload.key = context.key;
  upload.owner = owner_of(context.caller());
  VB_CO_ASSIGN(upload.headers, read_object_headers(context));
  VB_CO_TRY(settle_storage_class(upload.headers, context.bucket));
  VB_CO_ASSIGN(upload.tags, read_tagging_header(context));
  VB_CO_ASSIGN(upload.lock, read_lock_headers(context));
  VB_CO_TRY(read_upload_checksum(context, upload));
  VB_CO_ASSIGN(const AclWish wish, read_acl_headers(context));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  const Asked asked{.action = action::put_object,
                    .key = context.key,
                    .tags = &upload.tags,
                    .lock = &upload.lock,
                    .headers = &upload.headers,
                    .creates = false};
  VB_CO_ASSIGN(upload.attributes, authorize_new_object(context.service, context.caller(), *access, asked, wish));
  VB_CO_TRY(co_await read_begin_conditions(context, *access, upload.attributes));
  VB_CO_ASSIGN(EncryptionWish encryption, read_encryption(context));
  VB_CO_ASSIGN(encryption, session_encryption(context.caller(), std::move(encryption)));
  VB_CO_ASSIGN(store::Attributes sealed,
               co_await plan_upload_seal(context.service, context.bucket, context.key, std::move(encryption)));
  store::change_attributes(upload.attributes, sealed);
  // Reserves the completed object's count now, so that the upload can be completed.
  VB_CO_ASSIGN(const Reservation room, Reservation::make(context.service, *access, 0, 1));
  VB_CO_ASSIGN(upload, co_await context.service.store.create_upload(std::move(upload)));
  if (upload.checksum_algorithm) {
    context.reply_header("x-amz-checksum-algorithm", std::string(to_string(*upload.checksum_algorithm)));
    context.reply_header("x-amz-checksum-type", upload.checksum_full_object ? "FULL_OBJECT" : "COMPOSITE");
  }
  add_encryption_headers(context, upload.attributes);
  XmlWriter xml("InitiateMultipartUploadResult");
  xml.element("Bucket", context.bucket);
  xml.element("Key", context.key);
  xml.element("UploadId", upload.upload_id);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_abort_upload(Context& context) {
  const std::string upload_id(context.query.get_or_empty("uploadId"));
  VB_CO_TRY(co_await authorize_upload(context, action::abort_upload));
  VB_CO_ASSIGN(const bool there, co_await check_initiated(context, upload_id));
  if (there) VB_CO_TRY(co_await context.service.store.abort_upload(context.bucket, context.key, upload_id));
  reply_no_content(context);
  co_return Result<void>();
}

}  // namespace verbena::s3
