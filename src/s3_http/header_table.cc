// The headers of the S3 API reference and of the AWS SDKs' model, each with the requests that may have it. A header has
// one row. Verbs implement headers; this table only says which requests may have them.
#include "s3_http/header_table.h"

#include <algorithm>
#include <array>
#include <utility>

namespace verbena::s3 {

// Of its own, so that the kinds of requests have short names here and nowhere else.
namespace header_rows {

using enum RequestKind;
using enum OfBuckets;

constexpr RequestKinds every = ~RequestKinds{0};
constexpr RequestKinds new_object = kinds(put_object, copy_object, create_upload, post_object);
constexpr RequestKinds copies = kinds(copy_object, upload_part_copy);
constexpr RequestKinds reads = kinds(list_buckets, create_session, list_objects, read_bucket, get_object, head_object,
                                     object_attributes, list_parts, read_object_document);
// A body, or a document of a bucket or an object, that is compared with its checksum.
constexpr RequestKinds documents =
    kinds(create_bucket, put_bucket_acl, put_versioning, put_lifecycle, put_policy, put_notification, put_object_lock,
          put_bucket_document, delete_objects, put_object_acl, put_object_retention, put_object_document, touch_object);
constexpr RequestKinds summed = documents | kinds(put_object, upload_part, post_object, complete_upload);
constexpr RequestKinds lists = kinds(create_bucket, put_bucket_acl, put_object_acl) | new_object;
constexpr RequestKinds customer_keys =
    new_object | kinds(get_object, head_object, object_attributes, upload_part, upload_part_copy);
constexpr RequestKinds of_an_upload = kinds(upload_part, upload_part_copy, complete_upload);
constexpr RequestKinds sent_back = kinds(copy_object, create_upload);
constexpr RequestKinds tokens = kinds(get_object, put_object, upload_part);

constexpr auto table = std::to_array<HeaderRule>({
    // Signatures, and headers that every SDK sends.
    {"x-amz-date", every},
    {"x-amz-content-sha256", every},
    {"x-amz-security-token", every},
    {"x-amz-s3session-token", every},
    {"x-amz-decoded-content-length", every},
    {"x-amz-trailer", every},
    {"x-amz-sdk-checksum-algorithm", every},
    {"x-amz-user-agent", 0, every, all, "it says who asks"},
    {"x-amz-api-version", 0, every, all, "there is one version of the API, which the AWS SDK for C++ always names"},
    {"x-amz-te", 0, every, all, "it offers a digest behind an answer, which none has to send"},
    {"x-amz-cf-id", 0, every, all, "it is the id that a proxy gave the request"},
    {"x-amz-account-id", 0, every, all, "S3 Control looks at it; else the signature says who asks"},
    {"x-amz-request-payer", 0, every, all, "the bucket's owner pays, which is what it has to say yes to"},
    {"x-amz-expected-bucket-owner", every},
    {"x-amz-algorithm", kinds(post_object)},
    {"x-amz-credential", kinds(post_object)},
    {"x-amz-signature", kinds(post_object)},

    // Checksums.
    {"x-amz-checksum-crc32", summed},
    {"x-amz-checksum-crc32c", summed},
    {"x-amz-checksum-crc64nvme", summed},
    {"x-amz-checksum-sha1", summed},
    {"x-amz-checksum-sha256", summed},
    {"x-amz-checksum-sha512", summed},
    {"x-amz-checksum-md5", summed},
    {"x-amz-checksum-xxhash64", summed},
    {"x-amz-checksum-xxhash3", summed},
    {"x-amz-checksum-xxhash128", summed},
    {"x-amz-checksum-algorithm", new_object | kinds(upload_part), kinds(complete_upload), all,
     "the upload has its algorithm since it was begun"},
    {"x-amz-checksum-type", kinds(create_upload, complete_upload, put_object, upload_part)},
    {"x-amz-checksum-mode", kinds(get_object, head_object)},

    // Conditions. A read may ignore a condition that only saves sending known bytes, and answer in full (RFC 9110
    // section 13.1); a condition that forbids an operation must not be ignored.
    {"if-match", kinds(get_object, head_object, put_object, copy_object, post_object, create_upload, complete_upload,
                       rename_object, delete_object)},
    {"if-none-match",
     kinds(get_object, head_object, put_object, copy_object, post_object, create_upload, complete_upload,
           rename_object),
     reads, all, "the answer is whole"},
    {"if-modified-since", kinds(get_object, head_object, rename_object), reads, all, "the answer is whole"},
    {"if-unmodified-since", kinds(get_object, head_object, rename_object)},
    {"if-range", kinds(get_object, head_object), every, all, "without a range it asks for nothing"},
    {"x-amz-if-match-last-modified-time", kinds(delete_object)},
    {"x-amz-if-match-size", kinds(delete_object)},
    {"x-amz-if-match-initiated-time", kinds(abort_upload), 0, directory},
    {"x-amz-copy-source-if-match", copies},
    {"x-amz-copy-source-if-none-match", copies},
    {"x-amz-copy-source-if-modified-since", copies},
    {"x-amz-copy-source-if-unmodified-since", copies},
    {"x-amz-rename-source-if-match", kinds(rename_object)},
    {"x-amz-rename-source-if-none-match", kinds(rename_object)},
    {"x-amz-rename-source-if-modified-since", kinds(rename_object)},
    {"x-amz-rename-source-if-unmodified-since", kinds(rename_object)},
    {"x-amz-object-if-match", 0, 0, all, "annotations are not served"},

    // Properties of a new object. x-amz-meta-* is handled before the table.
    {"x-amz-storage-class", new_object},
    {"x-amz-website-redirect-location", new_object, 0, general},
    {"x-amz-tagging", new_object, 0, general},
    {"x-amz-object-lock-mode", new_object, 0, general},
    {"x-amz-object-lock-retain-until-date", new_object, 0, general},
    {"x-amz-object-lock-legal-hold", new_object, 0, general},
    {"x-amz-write-offset-bytes", kinds(put_object)},
    {"x-amz-acl", lists, 0, general},
    {"x-amz-grant-full-control", lists, 0, general},
    {"x-amz-grant-read", lists, 0, general},
    {"x-amz-grant-read-acp", lists, 0, general},
    {"x-amz-grant-write", lists, 0, general},
    {"x-amz-grant-write-acp", lists, 0, general},
    {"x-amz-server-side-encryption", new_object | kinds(create_session, get_object, head_object), of_an_upload, all,
     "the upload has its encryption since it was begun"},
    {"x-amz-server-side-encryption-aws-kms-key-id", new_object | kinds(create_session, get_object, head_object),
     of_an_upload, all, "the upload has its encryption since it was begun"},
    {"x-amz-server-side-encryption-bucket-key-enabled", new_object | kinds(create_session, get_object, head_object),
     of_an_upload, all, "the upload has its encryption since it was begun"},
    {"x-amz-server-side-encryption-context", 0, 0, all, "encryption contexts are not served"},
    {"x-amz-server-side-encryption-customer-algorithm", customer_keys, kinds(complete_upload, list_parts), general,
     "no byte is read or written"},
    {"x-amz-server-side-encryption-customer-key", customer_keys, kinds(complete_upload, list_parts), general,
     "no byte is read or written"},
    {"x-amz-server-side-encryption-customer-key-md5", customer_keys, kinds(complete_upload, list_parts), general,
     "no byte is read or written"},

    // Headers of HEAD's answer, which s3cmd sends back with the object's metadata.
    {"x-amz-expiration", 0, sent_back, all, "it tells of the source"},
    {"x-amz-tagging-count", 0, sent_back, all, "it tells of the source"},
    {"x-amz-mp-parts-count", 0, sent_back, all, "it tells of the source"},
    {"x-amz-version-id", 0, sent_back, all, "it tells of the source"},
    {"x-amz-request-id", 0, sent_back, all, "it tells of another request"},
    {"x-amz-id-2", 0, sent_back, all, "it tells of another request"},

    // Copies, renames, uploads.
    {"x-amz-copy-source", copies},
    {"x-amz-copy-source-range", kinds(upload_part_copy)},
    {"x-amz-copy-source-server-side-encryption-customer-algorithm", copies, 0, general},
    {"x-amz-copy-source-server-side-encryption-customer-key", copies, 0, general},
    {"x-amz-copy-source-server-side-encryption-customer-key-md5", copies, 0, general},
    {"x-amz-source-expected-bucket-owner", copies},
    {"x-amz-metadata-directive", kinds(copy_object)},
    {"x-amz-tagging-directive", kinds(copy_object), 0, general},
    {"x-amz-object-annotation-directive", 0, kinds(copy_object), all, "no object has annotations"},
    {"x-amz-rename-source", kinds(rename_object)},
    {"x-amz-client-token", kinds(rename_object)},
    {"x-amz-mp-object-size", kinds(complete_upload)},

    // Parameters of reads and listings.
    {"x-amz-object-attributes", kinds(object_attributes)},
    {"x-amz-max-parts", kinds(object_attributes)},
    {"x-amz-part-number-marker", kinds(object_attributes)},
    {"x-amz-optional-object-attributes", 0, kinds(list_objects), all,
     "no object is in an archive, so none is restored"},

    // Buckets and their documents, and removals.
    {"x-amz-bucket-namespace", kinds(create_bucket), 0, general},
    {"x-amz-bucket-object-lock-enabled", kinds(create_bucket), 0, general},
    {"x-amz-bucket-object-lock-token", 0, kinds(put_object_lock), general, "no token is needed"},
    {"x-amz-object-ownership", kinds(create_bucket), 0, general},
    {"x-amz-create-session-mode", kinds(create_session)},
    {"x-amz-confirm-remove-self-bucket-access", kinds(put_policy), 0, general},
    {"x-amz-skip-destination-validation", kinds(put_notification)},
    {"x-amz-transition-default-minimum-object-size", kinds(put_lifecycle), 0, general},
    {"x-amz-bypass-governance-retention", kinds(delete_object, delete_objects, put_object_retention), 0, general},
    {"x-amz-mfa", 0, 0, all, "MFA delete is not served"},

    // Ours, and those of RDMA tokens.
    {"x-amz-rdma-token", tokens, kinds(head_object), all, "no byte is sent"},
    {"x-amz-rdma-bytes", tokens, kinds(head_object), all, "no byte is sent"},
    {"x-amz-rdma-checksum-algorithm", tokens, kinds(head_object), all, "no byte is sent"},
    {"x-verbena-rdma-sealing", tokens, kinds(head_object), all, "no byte is sent"},
    {"x-verbena-durability", kinds(create_bucket)},
    {"x-verbena-append", kinds(create_bucket)},
    {"x-verbena-etag", kinds(create_bucket, put_object, upload_part)},
    {"x-verbena-ttl", kinds(put_object, copy_object, create_upload, touch_object)},
    {"x-verbena-expires", 0, kinds(put_object) | sent_back, all, "it tells of the source"},
});

}  // namespace header_rows

namespace {

constexpr size_t name_size_max = 64;

// By the length of the name, so that a look-up compares it with the few others of its length.
struct ByLength {
  std::array<HeaderRule, header_rows::table.size()> rules = header_rows::table;
  std::array<uint8_t, name_size_max + 2> begins{};
};
constexpr ByLength by_length = [] {
  ByLength made;
  std::ranges::sort(made.rules, {}, [](const HeaderRule& rule) { return std::pair(rule.name.size(), rule.name); });
  size_t at = 0;
  for (size_t size = 0; size < made.begins.size(); ++size) {
    while (at < made.rules.size() && made.rules[at].name.size() < size) ++at;
    made.begins[size] = static_cast<uint8_t>(at);
  }
  return made;
}();
static_assert(by_length.begins.back() == header_rows::table.size() && header_rows::table.size() < 256,
              "a name is longer than name_size_max");
static_assert(std::ranges::adjacent_find(by_length.rules, {}, &HeaderRule::name) == by_length.rules.end(),
              "a header has two rows");

const HeaderRule* find_rule(std::string_view name) {
  if (name.size() > name_size_max) return nullptr;
  for (size_t i = by_length.begins[name.size()]; i < by_length.begins[name.size() + 1]; ++i) {
    if (by_length.rules[i].name == name) return &by_length.rules[i];
  }
  return nullptr;
}

RequestKind kind_of_bucket(std::string_view method, std::string_view selector) {
  using enum RequestKind;
  if (method == "GET") {
    if (selector == "session") return create_session;
    return selector.empty() || selector == "list-type" || selector == "versions" ? list_objects : read_bucket;
  }
  if (method == "HEAD") return read_bucket;
  if (method == "DELETE") return delete_bucket;
  if (method == "POST") return selector == "delete" ? delete_objects : post_form;
  constexpr std::pair<std::string_view, RequestKind> puts[] = {{"", create_bucket},
                                                               {"acl", put_bucket_acl},
                                                               {"versioning", put_versioning},
                                                               {"lifecycle", put_lifecycle},
                                                               {"policy", put_policy},
                                                               {"notification", put_notification},
                                                               {"object-lock", put_object_lock}};
  const auto found = std::ranges::find(puts, selector, &std::pair<std::string_view, RequestKind>::first);
  return found == std::end(puts) ? put_bucket_document : found->second;
}

RequestKind kind_of_object(std::string_view method, std::string_view selector) {
  using enum RequestKind;
  if (method == "HEAD") return head_object;
  if (method == "GET") {
    if (selector.empty()) return get_object;
    if (selector == "uploadId") return list_parts;
    return selector == "attributes" ? object_attributes : read_object_document;
  }
  if (method == "POST") return selector == "uploads" ? create_upload : complete_upload;
  if (method == "DELETE") {
    if (selector == "uploadId") return abort_upload;
    return selector.empty() ? delete_object : delete_object_tagging;
  }
  if (selector.empty()) return put_object;
  if (selector == "uploadId") return upload_part;
  if (selector == "renameObject") return rename_object;
  if (selector == "verbena-touch") return touch_object;
  if (selector == "acl") return put_object_acl;
  return selector == "retention" ? put_object_retention : put_object_document;
}

}  // namespace

RequestKind request_kind(bool bucket, bool object, std::string_view method, std::string_view selector) {
  using enum RequestKind;
  if (method == "OPTIONS") return preflight;
  if (object) return kind_of_object(method, selector);
  return bucket ? kind_of_bucket(method, selector) : list_buckets;
}

RequestKind copying(RequestKind kind) {
  using enum RequestKind;
  if (kind == put_object) return copy_object;
  return kind == upload_part ? upload_part_copy : kind;
}

std::span<const HeaderRule> header_table() { return header_rows::table; }

bool may_have_header(RequestKind kind, bool directory, std::string_view name, std::string_view value) {
  using enum RequestKind;
  // A preflight has headers of its own. Metadata is accepted everywhere and has no effect on requests that cannot store
  // it.
  if (kind == preflight || name.starts_with("x-amz-meta-")) return true;
  const HeaderRule* const rule = find_rule(name);
  if (rule == nullptr || ((rule->obeyed | rule->no_effect) & kinds(kind)) == 0) return false;
  if (rule->of == OfBuckets::all || directory == (rule->of == OfBuckets::directory)) return true;
  // A directive for the default behaviour, which SDKs send.
  return name == "x-amz-tagging-directive" && value == "COPY";
}

bool is_unknown_checksum(std::string_view name) {
  constexpr std::string_view prefix = "x-amz-checksum-";
  return name.starts_with(prefix) && find_rule(name) == nullptr;
}

}  // namespace verbena::s3
