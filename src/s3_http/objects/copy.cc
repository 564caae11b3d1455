// CopyObject and UploadPartCopy: from reader to writer through the arena; no byte leaves the process.
#include <fmt/core.h>

#include <algorithm>

#include "base/date.h"
#include "base/hex.h"
#include "s3/access/authorize.h"
#include "s3/access/bound.h"
#include "s3/access/quota.h"
#include "s3/copy_source.h"
#include "s3/events/announce.h"
#include "s3/express/directory.h"
#include "s3/names.h"
#include "s3/objects/body_digests.h"
#include "s3/objects/checksums.h"
#include "s3/objects/encryption.h"
#include "s3/objects/ingest.h"
#include "s3/objects/object_headers.h"
#include "s3/objects/range.h"
#include "s3/objects/read.h"
#include "s3/objects/read_ahead.h"
#include "s3/objects/write_plan.h"
#include "s3/xml.h"
#include "s3_http/acl_requests.h"
#include "s3_http/checksum_headers.h"
#include "s3_http/encryption_headers.h"
#include "s3_http/headers.h"
#include "s3_http/objects/condition_headers.h"
#include "s3_http/objects/expiration.h"
#include "s3_http/objects/lock.h"
#include "s3_http/objects/multipart.h"
#include "s3_http/objects/tagging.h"
#include "s3_http/objects/versions.h"
#include "s3_http/request_record.h"
#include "s3_http/verbs.h"
#include "store/ends.h"

namespace verbena::s3 {
namespace {

constexpr uint64_t copy_size_max = 5 * GiB;

// An error about the source names the source, not the object that the request would have made.
void describe_source(Context& context, const CopySource& source, const Error& error) {
  auto& fields = context.error_fields;
  if (error == Errc::no_such_bucket || error == Errc::invalid_bucket_name) {
    fields.emplace_back("BucketName", source.bucket);
  } else if (error == Errc::no_such_key || error == Errc::corrupt_object) {
    fields.emplace_back("Key", source.key);
  } else if (error == Errc::no_such_version) {
    fields.emplace_back("Key", source.key);
    fields.emplace_back("VersionId", source.version_id);
  }
}

// Opens the source and checks its conditions. A copy whose condition fails is 412, whichever condition it is.
Task<Result<std::shared_ptr<store::ObjectReader>>> find_source(Context& context, const CopySource& source) {
  VB_CO_TRY(co_await bucket_access(context.service, source.bucket));
  if (const auto expected = context.header("x-amz-source-expected-bucket-owner")) {
    VB_CO_TRY(co_await check_expected_owner(context.service, source.bucket, *expected));
  }
  GetRequest request;
  request.bucket = source.bucket;
  request.key = source.key;
  request.version_id = source.version_id;
  request.preconditions = read_preconditions(context, "x-amz-copy-source-");
  VB_CO_ASSIGN(request.customer_key, read_customer_key(context, source_key_prefix));
  ObjectRead read(context.service, context.caller(), request, ObjectRead::Of::bytes);
  if (co_await read.finish(read.look()) == ObjectRead::Step::answer) co_return read.take().reader;
  const Error& error = read.error();
  if (read.refused() != nullptr) {
    context.error_fields.emplace_back("Condition", std::string("x-amz-copy-source-") + error.context);
    co_return fail(Errc::precondition_failed, error.context);
  }
  if (error == Errc::method_not_allowed) {
    co_return fail(Errc::invalid_request,
                   "The source of a copy request may not specifically refer to a delete marker by version id.");
  }
  co_return std::unexpected(error);
}

Task<Result<std::shared_ptr<store::ObjectReader>>> open_source(Context& context, const CopySource& source) {
  co_await begin_source_record(context, source);
  auto opened = co_await find_source(context, source);
  if (opened) {
    add_source_size(context, (*opened)->info().size);
  } else {
    describe_source(context, source, opened.error());
  }
  co_return opened;
}

// The right to the tags that the copy takes from its source.
Task<Result<void>> authorize_tags(Context& context, const CopySource& source, const store::ObjectInfo& from) {
  if (from.tags.empty()) co_return Result<void>();
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, source.bucket));
  const Asked asked{
      .action = action::get_object_tagging, .key = source.key, .version_id = source.version_id, .object = &from};
  co_return authorize(context.service, context.caller(), *access, asked);
}

// Authorizes the tags that the copy takes from its source, as authorize_new_object() does for those of a request.
Result<void> authorize_copied_tags(const Context& context, const BucketAccess& access, const store::Tags& tags) {
  const Asked asked{.action = action::put_object_tagging, .key = context.key, .tags = &tags};
  return authorize_besides(context.service, context.caller(), access, asked);
}

Task<Result<void>> copy_bytes(Context& context, std::shared_ptr<store::ObjectReader> reader, const Extent& extent,
                              store::ObjectWriter& writer, BodyDigests& digests, ByteCharge* charge) {
  auto executor = co_await boost::asio::this_coro::executor;
  ReadAhead chunks(executor, context.service.arena, context.caller().peer_address, std::move(reader), extent.offset,
                   extent.length);
  while (!chunks.done()) {
    VB_CO_ASSIGN(memory::Chunk chunk, co_await chunks.next());
    digests.update(chunk.bytes);
    if (charge != nullptr) charge->moved(chunk.bytes.size());
    VB_CO_TRY(co_await writer.append(std::move(chunk)));
  }
  digests.finish();
  co_return Result<void>();
}

// The reservation and the charge of a copy (null: none). Copied bytes are charged once.
struct CopyCosts {
  Reservation room;
  std::shared_ptr<ByteCharge> charge;
};
Task<Result<CopyCosts>> reserve_copy(Context& context, uint64_t bytes, uint64_t objects) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  CopyCosts costs;
  VB_CO_ASSIGN(costs.room, Reservation::make(context.service, *access, bytes, objects));
  costs.charge = ByteCharge::make(context.caller(), *access);
  if (costs.charge) costs.charge->begin(bytes);
  co_return std::move(costs);
}

bool is_md5(std::string_view etag) { return etag.size() == 32 && is_lower_hex(etag); }

Result<bool> replaces_metadata(const Context& context) {
  const auto directive = context.header("x-amz-metadata-directive").value_or("COPY");
  if (directive != "COPY" && directive != "REPLACE") return fail(Errc::invalid_argument, "Unknown metadata directive.");
  return directive == "REPLACE";
}

Result<bool> replaces_tags(const Context& context) {
  const auto directive = context.header("x-amz-tagging-directive").value_or("COPY");
  if (directive != "COPY" && directive != "REPLACE") return fail(Errc::invalid_argument, "Unknown tagging directive.");
  return directive == "REPLACE";
}

// x-amz-copy-source-version-id: the version that was read.
void add_source_version(Context& context, const store::ObjectInfo& from) {
  if (!from.version_id.empty()) context.reply_header("x-amz-copy-source-version-id", from.version_id);
}

// Keeps the source's checksums if they are of the whole object; recomputes composite ones and the requested one, beside
// which the copy has none. A copy of a source without checksums gets the default one.
Result<std::vector<store::Checksum>> plan_copy_checksums(const Context& context, const store::ObjectInfo& source,
                                                         BodyDigests& digests) {
  VB_ASSIGN(const auto algorithm, read_checksum_algorithm(context));
  std::vector<store::Checksum> kept;
  for (const auto& checksum : source.checksums) {
    if (algorithm && checksum.algorithm != *algorithm) continue;
    if (checksum.parts == 0) {
      kept.push_back(checksum);
    } else {
      digests.want(checksum.algorithm);
    }
  }
  if (algorithm && kept.empty()) digests.want(*algorithm);
  if (!algorithm && source.checksums.empty()) digests.want(default_checksum);
  return kept;
}

// A part's checksum has no type of its own, so only an object's is returned.
std::string copy_result_xml(bool part, const std::string& etag, int64_t modified_us,
                            const std::vector<store::Checksum>& checksums) {
  XmlWriter xml(part ? "CopyPartResult" : "CopyObjectResult");
  xml.element("LastModified", format_iso8601(modified_us));
  xml.quoted("ETag", etag);
  for (const auto& checksum : checksums) xml.element(checksum_element(checksum.algorithm), format_checksum(checksum));
  if (!part && !checksums.empty()) xml.element("ChecksumType", checksum_type(checksums));
  return xml.finish();
}

// Authorizes writing the copy, and returns the attributes with its owner. An object's ACL is not copied (S3).
// `own_tags`: the request's tags for the copy. Tags of the source need the right to tag, and are not facts of the
// request.
Task<Result<store::Attributes>> authorize_copy(Context& context, const store::ObjectInfo& info, bool own_tags,
                                               const store::CommitConditions& conditions) {
  VB_CO_ASSIGN(const AclWish wish, read_acl_headers(context));
  const PlannedWrite write{.bucket = context.bucket,
                           .key = context.key,
                           .tags = own_tags ? &info.tags : nullptr,
                           .lock = &info.lock,
                           .conditions = &conditions,
                           .acl = &wish};
  WriteFacts have = facts_at_hand(context.service, write);
  VB_CO_ASSIGN(WritePlan plan,
               co_await settle_plan(context.service, context.caller(), write, have,
                                    judge_write(context.service, context.caller(), write, have), judge_write));
  if (!own_tags && !info.tags.empty()) VB_CO_TRY(authorize_copied_tags(context, *have.access, info.tags));
  co_return std::move(plan.attributes);
}

// Authorizes again before the commit, if a key has changed, or a document of either bucket: `source_number` is that of
// the source's bucket (AccessGeneration) from before the first check. True: rights changed and the caller may still
// read the source; the right to write must be checked next.
Task<Result<bool>> renew_copy(Context& context, const CopySource& source, const store::ObjectInfo& from,
                              const BucketAccess& target, uint64_t source_number) {
  const bool source_is_same = context.service.access->now(source.bucket) == source_number;
  if (source_is_same && !may_have_changed(context.service, context.caller(), target)) co_return false;
  VB_CO_TRY(renew_caller(context));
  VB_CO_TRY(co_await same_bucket_access(context.service, target));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, source.bucket));
  const Asked reading{
      .action = action::get_object, .key = source.key, .version_id = source.version_id, .object = &from};
  VB_CO_TRY(authorize(context.service, context.caller(), *access, reading));
  co_return true;
}

// Room in a bounded bucket; before rights are judged again, since it may have to wait.
Task<Result<BoundClaim>> claim_copy(Context& context, const BucketAccess& target, uint64_t bytes,
                                    const store::CommitConditions& conditions) {
  if (target.bound == nullptr) co_return BoundClaim();
  VB_CO_TRY(co_await look_at_conditions(context.service, context.bucket, context.key, conditions));
  BoundWish wish{.key = context.key, .bytes = bytes};
  co_return co_await claim_room(target.bound, std::move(wish));
}

Result<void> check_ttl(const Context& context, std::optional<std::string_view> ttl) {
  if (!ttl) return {};
  return check_object_headers({{std::string(store::ttl_header), std::string(*ttl)}}, &context.service.store);
}

}  // namespace

Task<Result<void>> serve_copy_object(Context& context) {
  VB_CO_TRY(check_new_key(context.key));
  VB_CO_ASSIGN(const CopySource source, parse_copy_source(context.header("x-amz-copy-source").value_or("")));
  context.call.outcome.source = source.text();
  const uint64_t source_number = context.service.access->now(source.bucket);
  VB_CO_ASSIGN(const bool replace, replaces_metadata(context));
  VB_CO_ASSIGN(const bool replace_tags, replaces_tags(context));
  const auto wanted_class = context.header("x-amz-storage-class");
  const auto redirect = context.header(redirect_header);
  const auto ttl = context.header(store::ttl_header);
  const bool onto_itself = source.bucket == context.bucket && source.key == context.key && source.version_id.empty();
  VB_CO_ASSIGN(EncryptionWish wish, read_encryption(context));
  VB_CO_ASSIGN(wish, session_encryption(context.caller(), std::move(wish)));
  // Removing a customer's key is a change of encryption too, although the request names no method.
  const bool re_encrypts = wish.method != Encryption::none ||
                           context.header("x-amz-copy-source-server-side-encryption-customer-algorithm").has_value();
  if (!replace && !replace_tags && !wanted_class && !redirect && !ttl && !re_encrypts && onto_itself) {
    co_return fail(Errc::invalid_request,
                   "This copy request is illegal because it is trying to copy an object to itself without changing the "
                   "object's metadata, storage class, website redirect location or encryption attributes.");
  }
  VB_CO_ASSIGN(store::CommitConditions conditions, read_commit_conditions(context));
  VB_CO_ASSIGN(const auto reader, co_await open_source(context, source));
  const store::ObjectInfo& from = reader->info();
  if (!replace_tags) VB_CO_TRY(co_await authorize_tags(context, source, from));
  if (from.size > copy_size_max) {
    co_return fail(Errc::invalid_request,
                   "The specified copy source is larger than the maximum allowable size for a copy source: "
                   "5368709120.");
  }

  store::ObjectInfo info;
  info.size = from.size;
  info.headers = from.headers;
  if (replace) {
    VB_CO_ASSIGN(info.headers, read_object_headers(context));
  } else {
    set_storage_class(info.headers, wanted_class.value_or("STANDARD"));  // never the source's (S3)
    VB_CO_TRY(set_redirect(info.headers, redirect));                     // likewise
    store::drop_end(info);                                               // likewise
    if (ttl) info.headers.emplace_back(store::ttl_header, *ttl);
    VB_CO_TRY(check_ttl(context, ttl));
  }
  VB_CO_TRY(settle_storage_class(info.headers, context.bucket));
  info.tags = from.tags;
  if (replace_tags) {
    VB_CO_ASSIGN(info.tags, read_tagging_header(context));
  }
  VB_CO_ASSIGN(info.lock, read_lock_headers(context));
  VB_CO_ASSIGN(const BucketAccessPtr target, co_await bucket_access(context.service, context.bucket));
  VB_CO_ASSIGN(info.attributes, co_await authorize_copy(context, info, replace_tags, conditions));
  BodyDigests digests;
  VB_CO_ASSIGN(info.checksums, plan_copy_checksums(context, from, digests));
  // The bytes and so their MD5 are the same; an entity tag of a multipart upload, or one by RDMA token, is no MD5 of
  // the copy.
  VB_CO_ASSIGN(const Seal seal, co_await plan_seal(context.service, context.bucket, context.key, std::move(wish)));
  const bool md5_etag = has_md5_etag(*target, seal);
  const bool keep_etag = md5_etag && is_md5(from.etag);
  if (md5_etag && !keep_etag) digests.want_md5();

  if (target->bound != nullptr) VB_CO_TRY(target->bound->check_size(from.size));
  VB_CO_ASSIGN(const CopyCosts costs, co_await reserve_copy(context, from.size, 1));
  VB_CO_ASSIGN(auto writer,
               co_await context.service.store.create(context.bucket, context.key, seal.stored_size(from.size)));
  writer = seal.writer(context.service, std::move(writer), from.size);
  const Extent whole{0, from.size, false};
  VB_CO_TRY(co_await copy_bytes(context, reader, whole, *writer, digests, costs.charge.get()));
  VB_CO_ASSIGN(const BoundClaim claim, co_await claim_copy(context, *target, from.size, conditions));
  VB_CO_ASSIGN(const bool again, co_await renew_copy(context, source, from, *target, source_number));
  if (again) {
    if (!replace_tags) VB_CO_TRY(co_await authorize_tags(context, source, from));
    VB_CO_ASSIGN(info.attributes, co_await authorize_copy(context, info, replace_tags, conditions));
  }
  info.etag = keep_etag ? from.etag : md5_etag ? to_hex(as_bytes(digests.md5())) : random_etag();
  seal.mark_object(context.service, context.bucket, context.key, info);
  for (const auto& checksum : digests.checksums()) info.checksums.push_back(checksum);
  VB_CO_ASSIGN(conditions.announcement,
               co_await announce_now(context.service, context.bucket, context.caller(), EventCause::copy, context.key));
  VB_CO_ASSIGN(info, co_await writer->commit(std::move(info), std::move(conditions)));
  add_new_version_id(context.response, info.version_id);
  add_source_version(context, from);
  add_encryption_headers(context, info.attributes);
  if (may_expire(context)) co_await add_expiration_header(context, info);
  context.reply_xml(copy_result_xml(/*part=*/false, info.etag, info.modified_us, info.checksums));
  co_return Result<void>();
}

Task<Result<void>> serve_upload_part_copy(Context& context) {
  VB_CO_ASSIGN(const int number, read_part_number(context));
  VB_CO_ASSIGN(const CopySource source, parse_copy_source(context.header("x-amz-copy-source").value_or("")));
  context.call.outcome.source = source.text();
  const uint64_t source_number = context.service.access->now(source.bucket);
  std::optional<ByteRange> range;
  if (const auto header = context.header("x-amz-copy-source-range")) {
    VB_CO_ASSIGN(range, parse_copy_range(*header));
  }
  const std::string upload_id(context.query.get_or_empty("uploadId"));
  VB_CO_ASSIGN(const BucketAccessPtr target, co_await bucket_access(context.service, context.bucket));
  VB_CO_TRY(co_await authorize_upload(context, action::put_object));
  VB_CO_ASSIGN(const store::UploadInfo upload,
               co_await context.service.store.upload(context.bucket, context.key, upload_id));
  VB_CO_ASSIGN(const auto reader, co_await open_source(context, source));
  Extent extent{0, reader->info().size, false};
  if (range) {
    // Unlike a GET's, a copy's range must lie inside the source.
    if (*range->last >= reader->info().size) {
      co_return fail(Errc::invalid_range, "Range specified is not valid for source object.");
    }
    VB_CO_ASSIGN(extent, resolve_range(*range, reader->info().size));
  }
  if (extent.length > store::part_size_max) co_return fail(Errc::entity_too_large, "upload part copy");

  VB_CO_ASSIGN(const CustomerKeyPtr customer, read_customer_key(context, own_key_prefix));
  VB_CO_ASSIGN(const Seal seal, part_seal(context.service, upload, customer));
  BodyDigests digests;
  if (!target->opaque_etags) digests.want_md5();
  digests.want(upload.checksum_algorithm.value_or(default_checksum));
  VB_CO_ASSIGN(const CopyCosts costs, co_await reserve_copy(context, extent.length, 0));
  VB_CO_ASSIGN(auto writer, co_await context.service.store.create_part(context.bucket, context.key, upload_id, number,
                                                                       seal.stored_size(extent.length)));
  writer = seal.writer(context.service, std::move(writer), extent.length);
  VB_CO_TRY(co_await copy_bytes(context, reader, extent, *writer, digests, costs.charge.get()));
  VB_CO_ASSIGN(const bool again, co_await renew_copy(context, source, reader->info(), *target, source_number));
  if (again) VB_CO_TRY(co_await authorize_upload(context, action::put_object));
  store::ObjectInfo part;
  part.size = extent.length;
  part.etag = target->opaque_etags ? random_etag() : to_hex(as_bytes(digests.md5()));
  if (seal.opaque_etag() && !target->opaque_etags) part.etag = seal.part_etag(number, part.etag);
  seal.mark_part(part);
  part.checksums = digests.checksums();
  store::CommitConditions none;
  VB_CO_ASSIGN(part, co_await writer->commit(std::move(part), std::move(none)));
  add_source_version(context, reader->info());
  add_encryption_headers(context, encryption_attributes(upload.attributes));
  context.reply_xml(copy_result_xml(/*part=*/true, part.etag, part.modified_us, part.checksums));
  co_return Result<void>();
}

}  // namespace verbena::s3
