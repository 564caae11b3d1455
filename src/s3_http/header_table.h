// The headers that requests of each kind may have. Headers that are not in the table, or not for that kind, are
// refused.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace verbena::s3 {

// Kinds of requests: S3's operations, grouped by their headers.
enum class RequestKind : uint8_t {
  list_buckets,
  create_session,
  create_bucket,
  list_objects,   // ListObjects, ListObjectsV2, ListObjectVersions
  read_bucket,    // HeadBucket, and every other GET of a bucket
  delete_bucket,  // and of its documents
  put_bucket_acl,
  put_versioning,
  put_lifecycle,
  put_policy,
  put_notification,
  put_object_lock,      // PutObjectLockConfiguration
  put_bucket_document,  // every other PUT of a bucket's document
  delete_objects,
  post_form,    // the HTTP headers of a browser's form
  post_object,  // its fields, which are headers
  get_object,
  head_object,
  object_attributes,
  list_parts,
  read_object_document,  // list, tags, retention, legal hold
  put_object,
  copy_object,
  upload_part,
  upload_part_copy,
  rename_object,
  put_object_acl,
  put_object_retention,
  put_object_document,  // tags, legal hold
  touch_object,
  create_upload,
  complete_upload,
  abort_upload,
  delete_object,
  delete_object_tagging,
  preflight,
};

// The kind of an operation of the router; a PUT may still turn out to be a copy.
RequestKind request_kind(bool bucket, bool object, std::string_view method, std::string_view selector);
// The kind of a PUT that copies.
RequestKind copying(RequestKind kind);

// A set of kinds.
using RequestKinds = uint64_t;
constexpr RequestKinds kinds(auto... kind) {
  return (RequestKinds{0} | ... | (RequestKinds{1} << static_cast<unsigned>(kind)));
}

enum class OfBuckets : uint8_t { all, general, directory };

struct HeaderRule {
  std::string_view name;
  RequestKinds obeyed = 0;     // it has AWS's effect, or its value is refused
  RequestKinds no_effect = 0;  // it is accepted without effect, for the reason in `why`
  OfBuckets of = OfBuckets::all;
  std::string_view why = {};  // also for AWS's headers that are refused
};
std::span<const HeaderRule> header_table();

// Whether the table covers a header: x-amz-*, x-verbena-*, and conditions. Others have their meaning from HTTP.
inline bool is_in_table(std::string_view name) {
  if (name.empty() || (name[0] != 'x' && name[0] != 'i')) return false;
  return name.starts_with("x-amz-") || name.starts_with("if-") || name.starts_with("x-verbena-");
}

// For a covered name. `directory`: the request is for a directory bucket.
bool may_have_header(RequestKind kind, bool directory, std::string_view name, std::string_view value);
// x-amz-checksum-* of an algorithm that S3 does not have.
bool is_unknown_checksum(std::string_view name);

}  // namespace verbena::s3
