// CompleteMultipartUpload: makes one object of the parts that the client lists, after checking them against the stored
// ones.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/decimal.h"
#include "s3/access/authorize.h"
#include "s3/access/bound.h"
#include "s3/document_reading.h"
#include "s3/errors.h"
#include "s3/events/announce.h"
#include "s3/names.h"
#include "s3/objects/checksums.h"
#include "s3/objects/encryption.h"
#include "s3/xml.h"
#include "s3_http/checksum_headers.h"
#include "s3_http/encryption_headers.h"
#include "s3_http/objects/condition_headers.h"
#include "s3_http/objects/expiration.h"
#include "s3_http/objects/multipart.h"
#include "s3_http/objects/versions.h"
#include "s3_http/request_documents.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr uint64_t part_size_min = 5 * MiB;  // for all parts but the last

Task<Result<std::map<int, store::PartInfo>>> stored_parts(Context& context, const std::string& upload_id) {
  std::map<int, store::PartInfo> parts;
  int after = 0;
  for (;;) {
    VB_CO_ASSIGN(store::PartPage page,
                 co_await context.service.store.list_parts(context.bucket, context.key, upload_id, after, 1000));
    for (auto& part : page.parts) {
      after = part.number;
      parts.emplace(part.number, std::move(part));
    }
    if (!page.truncated || page.parts.empty()) co_return parts;
  }
}

Result<store::PartInfo> match_part(const CompletePart& wanted, const std::map<int, store::PartInfo>& stored) {
  const auto found = stored.find(wanted.number);
  if (found == stored.end() || found->second.etag != wanted.etag) return fail(Errc::invalid_part, "complete: part");
  for (const auto& checksum : wanted.checksums) {
    if (std::ranges::find(found->second.checksums, checksum) == found->second.checksums.end()) {
      return fail(Errc::invalid_part, "complete: part's checksum");
    }
  }
  return found->second;
}

void describe_small_part(Context& context, const store::PartInfo& part) {
  context.error_fields.emplace_back("ProposedSize", std::to_string(part.size));
  context.error_fields.emplace_back("MinSizeAllowed", std::to_string(part_size_min));
  context.error_fields.emplace_back("PartNumber", std::to_string(part.number));
  context.error_fields.emplace_back("ETag", part.etag);
}

Result<std::vector<store::PartInfo>> select_parts(Context& context, const std::vector<CompletePart>& wanted,
                                                  const std::map<int, store::PartInfo>& stored) {
  std::vector<store::PartInfo> parts;
  parts.reserve(wanted.size());
  for (const auto& one : wanted) {
    if (!parts.empty() && one.number <= parts.back().number) return fail(Errc::invalid_part_order, "complete");
    if (is_directory_bucket(context.bucket) && one.number != static_cast<int>(parts.size()) + 1) {
      return fail(Errc::invalid_part, "The numbers of parts must be consecutive in a directory bucket.");
    }
    auto part = match_part(one, stored);
    if (!part) {
      context.error_fields.emplace_back("PartNumber", std::to_string(one.number));
      context.error_fields.emplace_back("ETag", one.etag);
      return std::unexpected(part.error());
    }
    if (!parts.empty() && parts.back().size < part_size_min) {
      describe_small_part(context, parts.back());
      return fail(Errc::entity_too_small, "complete");
    }
    parts.push_back(std::move(*part));
  }
  return parts;
}

// MD5 of the parts' MD5s, "-" and their number. A part sent by RDMA token has no MD5: its entity tag's text is used
// instead.
template <typename Parts>
std::string multipart_etag(const Parts& parts) {
  Digest digest(Algorithm::md5);
  for (const auto& part : parts) {
    const auto raw = from_hex(part.etag);
    if (raw && raw->size() == 16) {
      digest.update(*raw);
    } else {
      digest.update(as_bytes(part.etag));
    }
  }
  return fmt::format("{}-{}", digest.finish_hex(), parts.size());
}

uint64_t size_of_parts(const std::vector<store::PartInfo>& parts) {
  uint64_t size = 0;
  for (const auto& part : parts) size += part.size;  // at most 10,000 x 5 GiB
  return size;
}

Result<void> check_object_size(const Context& context, const std::vector<store::PartInfo>& parts) {
  const uint64_t size = size_of_parts(parts);
  if (size > store::object_size_max) return fail(Errc::entity_too_large, "complete");
  const auto header = context.header("x-amz-mp-object-size");
  if (header && parse_decimal(*header) != size) {
    return fail(Errc::invalid_request, "The size of the parts does not match x-amz-mp-object-size.");
  }
  return {};
}

// A composite checksum may come without its "-N": AWS takes both, and minio-go sends it so.
bool confirms(const store::Checksum& given, const store::Checksum& made) {
  return given.algorithm == made.algorithm && given.value == made.value &&
         (given.parts == 0 || given.parts == made.parts);
}

// The type of the checksum `given`, for an upload without an algorithm: of the full object, or composite.
std::optional<store::Checksum> combine_as_given(const store::Checksum& given,
                                                const std::vector<store::PartInfo>& parts) {
  auto whole = given.parts == 0 ? combine_checksums(given.algorithm, /*full_object=*/true, parts) : std::nullopt;
  if (whole && confirms(given, *whole)) return whole;
  auto composite = combine_checksums(given.algorithm, /*full_object=*/false, parts);
  return composite && (!whole || confirms(given, *composite)) ? composite : whole;
}

// Computes the object's checksum, and verifies the client's.
Result<std::vector<store::Checksum>> object_checksums(const Context& context, const store::UploadInfo& upload,
                                                      const std::vector<store::PartInfo>& parts) {
  if (const auto type = context.header("x-amz-checksum-type")) {
    if (upload.checksum_algorithm && (*type == "FULL_OBJECT") != upload.checksum_full_object) {
      return fail(Errc::invalid_request, "The upload was created with another x-amz-checksum-type.");
    }
  }
  VB_ASSIGN(const auto given, header_checksum(context));
  std::vector<store::Checksum> checksums;
  if (upload.checksum_algorithm) {
    auto combined = combine_checksums(*upload.checksum_algorithm, upload.checksum_full_object, parts);
    if (!combined) return fail(Errc::internal, "complete: a part lacks its checksum");
    checksums.push_back(std::move(*combined));
  } else if (given) {
    auto combined = combine_as_given(*given, parts);
    if (!combined) return fail(Errc::invalid_request, "The parts do not have the checksum that the request gives.");
    checksums.push_back(std::move(*combined));
  } else if (auto combined = combine_checksums(default_checksum, /*full_object=*/true, parts)) {
    checksums.push_back(std::move(*combined));  // as S3 does since December 2024, if no part has another one
  }
  const auto confirmed = [&](const store::Checksum& made) { return confirms(*given, made); };
  if (given && std::ranges::none_of(checksums, confirmed)) return fail(Errc::bad_digest, "complete");
  return checksums;
}

// The object's entity tag and checksums. For ten thousand parts this takes milliseconds.
Result<void> sum_up(const Context& context, const store::UploadInfo& upload, const std::vector<store::PartInfo>& parts,
                    store::ObjectInfo& info) {
  info.etag = multipart_etag(parts);
  VB_ASSIGN(info.checksums, object_checksums(context, upload, parts));
  return {};
}

Task<Result<void>> sum_up_beside(const Context& context, const store::UploadInfo& upload,
                                 const std::vector<store::PartInfo>& parts, store::ObjectInfo& info) {
  constexpr size_t parts_at_once = 256;
  if (parts.size() <= parts_at_once) co_return sum_up(context, upload, parts, info);
  const auto work = [&] { return sum_up(context, upload, parts, info); };
  co_return co_await beside_loop("parts", work);
}

std::string result_xml(const Context& context, const store::ObjectInfo& info) {
  XmlWriter xml("CompleteMultipartUploadResult");
  xml.element("Location",
              fmt::format("{}://{}{}", context.caller().secure ? "https" : "http",
                          context.request.header("host").value_or(context.request.host), context.request.raw_path));
  xml.element("Bucket", context.bucket);
  xml.element("Key", context.key);
  xml.quoted("ETag", info.etag);
  for (const auto& checksum : info.checksums) {
    xml.element(checksum_element(checksum.algorithm), format_checksum(checksum));
  }
  if (!info.checksums.empty()) xml.element("ChecksumType", checksum_type(info.checksums));
  return xml.finish();
}

// The upload that an object was made from, to recognize a repeated completion.
constexpr std::string_view upload_attribute = "upload";

// The current object, if that upload with those parts made it: a client that lost the first answer repeats the request,
// perhaps while the first one is still in progress. Else no_such_upload.
Task<Result<store::ObjectInfo>> completed_before(Context& context, const std::string& upload_id,
                                                 const std::vector<CompletePart>& wanted) {
  auto info = co_await context.service.store.stat(context.bucket, context.key, "");
  // A failure to look says nothing of the upload: told that there is none, a client would give its parts up.
  if (!info && !(info.error() == Errc::no_such_key)) co_return info;
  if (info) {
    const std::string* from = store::find_attribute(info->attributes, upload_attribute);
    if (from != nullptr && *from == upload_id && info->etag == multipart_etag(wanted)) co_return info;
  }
  co_return fail(Errc::no_such_upload, "complete");
}

// The conditions stored with the upload, if the request has none. Removes them from `made`, so that the object does not
// get them.
void add_begun_conditions(const store::UploadInfo& upload, store::CommitConditions& conditions,
                          store::Attributes& made) {
  for (const auto& [name, condition] :
       {std::pair(begun_if_match, &conditions.if_match), std::pair(begun_if_none_match, &conditions.if_none_match)}) {
    const std::string* kept = store::find_attribute(upload.attributes, name);
    if (kept == nullptr) continue;
    if (!*condition) *condition = *kept;
    made.emplace_back(name, "");
  }
}

Task<void> reply_completed(Context& context, const store::ObjectInfo& info) {
  add_new_version_id(context.response, info.version_id);
  add_encryption_headers(context, info.attributes);
  if (may_expire(context)) co_await add_expiration_header(context, info);
  context.reply_xml(result_xml(context, info));
}

Task<Result<void>> authorize_completion(Context& context, const store::CommitConditions& conditions) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  const Asked asked{.action = action::put_object, .key = context.key, .conditions = &conditions, .creates = true};
  VB_CO_TRY(authorize(context.service, context.caller(), *access, asked));
  const ObjectName name{context.key, {}};
  co_return co_await authorize_conditions(context.service, context.caller(), *access, name, conditions);
}

Task<Result<BoundClaim>> claim_completion(Context& context, const BucketAccess& access, uint64_t bytes,
                                          const store::CommitConditions& conditions) {
  VB_CO_TRY(co_await look_at_conditions(context.service, context.bucket, context.key, conditions));
  BoundWish wish{.key = context.key, .bytes = bytes};
  VB_CO_ASSIGN(BoundClaim claim, co_await claim_room(access.bound, std::move(wish)));
  VB_CO_TRY(co_await authorize_completion(context, conditions));  // again, since the room may have taken long
  co_return std::move(claim);
}

Task<Result<store::ObjectInfo>> complete_upload(Context& context, const std::string& upload_id,
                                                const std::vector<CompletePart>& wanted,
                                                store::CommitConditions conditions) {
  VB_CO_ASSIGN(const store::UploadInfo upload,
               co_await context.service.store.upload(context.bucket, context.key, upload_id));
  VB_CO_ASSIGN(const auto stored, co_await stored_parts(context, upload_id));
  VB_CO_ASSIGN(auto parts, select_parts(context, wanted, stored));
  VB_CO_TRY(check_object_size(context, parts));

  store::ObjectInfo info;
  info.headers = upload.headers;
  info.attributes = completed_attributes(context.service, upload, parts);
  info.attributes.emplace_back(upload_attribute, upload_id);
  add_begun_conditions(upload, conditions, info.attributes);
  VB_CO_TRY(co_await sum_up_beside(context, upload, parts, info));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  BoundClaim claim;
  if (access->bound != nullptr) {
    VB_CO_ASSIGN(claim, co_await claim_completion(context, *access, size_of_parts(parts), conditions));
  }
  VB_CO_ASSIGN(conditions.announcement, co_await announce_now(context.service, context.bucket, context.caller(),
                                                              EventCause::complete_upload, context.key));
  co_return co_await context.service.store.complete_upload(context.bucket, context.key, upload_id, std::move(parts),
                                                           std::move(info), std::move(conditions));
}

// The answer to a failed completion. A completion reads the upload, then its parts, then commits, and between any two
// steps another request may complete or abort the upload: then the failure says nothing. An upload is completed at most
// once, and ids are not reused. So if the upload is gone, the object that names it shows whether the same parts
// completed it; if it still exists, the failure stands. It also stands where its outcome is not known: the store may
// have made the object after all, which another one has replaced since.
Task<Result<store::ObjectInfo>> settle_completion(Context& context, const std::string& upload_id,
                                                  const std::vector<CompletePart>& wanted, const Error& failure) {
  const auto upload = co_await context.service.store.upload(context.bucket, context.key, upload_id);
  if (upload || !(upload.error() == Errc::no_such_upload)) co_return std::unexpected(failure);
  auto before = co_await completed_before(context, upload_id, wanted);
  const bool is_refusal = failure == Errc::slow_down || failure == Errc::insufficient_storage;
  const bool is_unknown = !is_refusal && error_form(failure.code).status >= 500;
  if (!before && is_unknown) co_return std::unexpected(failure);
  context.error_fields.clear();
  co_return before;
}

}  // namespace

Task<Result<void>> serve_complete_upload(Context& context) {
  VB_CO_ASSIGN(store::CommitConditions conditions, read_commit_conditions(context));
  VB_CO_TRY(co_await authorize_completion(context, conditions));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, xml_bytes_max));
  VB_CO_TRY(co_await authorize_completion(context, conditions));  // again, since the body may have taken long
  VB_CO_ASSIGN(const auto wanted, co_await read_beside(text, parse_complete));
  const std::string upload_id(context.query.get_or_empty("uploadId"));
  auto made = co_await complete_upload(context, upload_id, wanted, std::move(conditions));
  if (!made) made = co_await settle_completion(context, upload_id, wanted, made.error());
  VB_CO_TRY(made);
  co_await reply_completed(context, *made);
  co_return Result<void>();
}

}  // namespace verbena::s3
