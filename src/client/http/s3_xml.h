// Readers of S3's XML replies, bounded because the text is untrusted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/auth.h"
#include "client/outcome.h"

namespace verbena::client {

inline constexpr size_t xml_reply_bytes_max = 16u << 20;

struct XmlError {
  std::string code, message, request_id;  // empty when the text is not an S3 error
};
XmlError parse_error_xml(std::string_view xml);

// ListObjectsV2 with encoding-type=url. malformed_reply for anything else.
Outcome<ListPage> parse_list_xml(std::string_view xml);
struct BucketPage {
  std::vector<BucketInfo> buckets;
  std::string continuation;  // for the next page; empty: none
};
Outcome<BucketPage> parse_buckets_xml(std::string_view xml);
// The bound of a bucket. nullopt: the document has none.
Outcome<std::optional<BucketBound>> parse_bound_xml(std::string_view xml);
std::string bound_xml(const BucketBound& bound);
// The upload id.
Outcome<std::string> parse_initiate_upload_xml(std::string_view xml);
// The object's ETag. A 200 reply may still hold an <Error>: that is returned as an error.
Outcome<std::string> parse_complete_upload_xml(std::string_view xml);

// CreateSession's credentials, complete; else malformed_reply.
Outcome<auth::Credentials> parse_session_xml(std::string_view xml);

// The body of CompleteMultipartUpload. Checksums are base64 CRC32C, empty for none.
struct CompletedPart {
  int number = 0;
  std::string etag;
  std::string crc32c_base64;
};
std::string complete_upload_xml(const std::vector<CompletedPart>& parts);

// "2026-01-02T03:04:05.678Z"; the epoch when it is not a time.
std::chrono::system_clock::time_point parse_iso_time(std::string_view text);
// "Fri, 02 Jan 2026 03:04:05 GMT"; the epoch when it is not a time.
std::chrono::system_clock::time_point parse_http_time(std::string_view text);

}  // namespace verbena::client
