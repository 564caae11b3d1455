#include "s3_http/directory_requests.h"

#include <algorithm>
#include <array>

#include "s3/names.h"

namespace verbena::s3 {
namespace {

struct Allowed {
  bool object;
  std::string_view method, selector;
  bool operator==(const Allowed&) const = default;
};

// Source: Amazon S3 User Guide, "Directory bucket API operations".
constexpr std::array served = {
    Allowed{false, "PUT", ""},           // CreateBucket
    Allowed{false, "DELETE", ""},        // DeleteBucket
    Allowed{false, "HEAD", ""},          // HeadBucket
    Allowed{false, "GET", "session"},    // CreateSession
    Allowed{false, "GET", "list-type"},  // ListObjectsV2
    Allowed{false, "GET", "uploads"},    // ListMultipartUploads
    Allowed{false, "POST", "delete"},    // DeleteObjects
    Allowed{false, "GET", "policy"},
    Allowed{false, "PUT", "policy"},
    Allowed{false, "DELETE", "policy"},
    Allowed{false, "GET", "encryption"},
    Allowed{false, "PUT", "encryption"},
    Allowed{false, "DELETE", "encryption"},
    Allowed{false, "GET", "lifecycle"},
    Allowed{false, "PUT", "lifecycle"},
    Allowed{false, "DELETE", "lifecycle"},
    Allowed{true, "GET", ""},              // GetObject
    Allowed{true, "HEAD", ""},             // HeadObject
    Allowed{true, "PUT", ""},              // PutObject, CopyObject
    Allowed{true, "PUT", "renameObject"},  // RenameObject
    Allowed{true, "DELETE", ""},           // DeleteObject
    Allowed{true, "GET", "attributes"},    // GetObjectAttributes
    Allowed{true, "POST", "uploads"},      // CreateMultipartUpload
    Allowed{true, "PUT", "uploadId"},      // UploadPart, UploadPartCopy
    Allowed{true, "POST", "uploadId"},     // CompleteMultipartUpload
    Allowed{true, "DELETE", "uploadId"},   // AbortMultipartUpload
    Allowed{true, "GET", "uploadId"},      // ListParts
};

// For the two listings with common prefixes.
Result<void> check_listing(Context& context) {
  const auto prefix = context.query.get_or_empty("prefix"), delimiter = context.query.get_or_empty("delimiter");
  if (!prefix.empty() && !prefix.ends_with('/')) {
    return fail(Errc::invalid_argument,
                "For directory buckets, only prefixes that end in a delimiter (/) are supported.");
  }
  if (!delimiter.empty() && delimiter != "/") {
    return fail(Errc::invalid_argument, "For directory buckets, / is the only supported delimiter.");
  }
  for (const std::string_view name : {"start-after", "upload-id-marker"}) {
    if (context.query.get_or_empty(name).empty()) continue;
    context.error_fields.emplace_back("Query", name);
    return fail(Errc::not_implemented, "query parameter");
  }
  return {};
}

}  // namespace

bool serves_directory(bool object, std::string_view method, std::string_view selector) {
  return std::ranges::find(served, Allowed{object, method, selector}) != served.end();
}

Result<void> check_directory_request(Context& context, std::string_view selector) {
  if (const auto wanted = context.header("x-amz-storage-class"); wanted && *wanted != "EXPRESS_ONEZONE") {
    return fail(Errc::invalid_storage_class, "directory bucket");
  }
  if (const auto version = context.query.get("versionId"); version && *version != "null") {
    return fail(Errc::invalid_argument, "Objects in directory buckets have the version null alone.");
  }
  if (selector == "list-type" || selector == "uploads") return check_listing(context);
  return {};
}

void add_location_headers(Context& context) {
  if (!is_directory_bucket(context.bucket)) return;
  context.reply_header("x-amz-bucket-location-type", "AvailabilityZone");
  context.reply_header("x-amz-bucket-location-name", context.service.express.zone);
}

}  // namespace verbena::s3
