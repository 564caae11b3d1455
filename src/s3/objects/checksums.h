// x-amz-checksum-*, their trailers, and Content-MD5. Source: AWS "Checking object integrity in Amazon S3".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "s3/context.h"
#include "s3/service.h"

namespace verbena::s3 {

// "x-amz-checksum-crc32".
std::string checksum_header(Algorithm algorithm);
// "ChecksumCRC32", the element of XML answers.
std::string checksum_element(Algorithm algorithm);
// Base64, with "-n" when composite.
std::string format_checksum(const store::Checksum& checksum);
// Base64 of exactly the digest's size, "-n" allowed. invalid_checksum.
Result<store::Checksum> parse_checksum(Algorithm algorithm, std::string_view text);

// x-amz-checksum-algorithm: the checksum to compute for a copy, an upload, or a body without a checksum.
// invalid_request.
Result<std::optional<Algorithm>> read_checksum_algorithm(const Context& context);

// The checksums that a PUT announces. Fills expected, compute, content_md5 and trailing of `put`. invalid_request,
// invalid_checksum, invalid_digest.
Result<void> plan_checksums(const Context& context, PutRequest& put);

// The checksum that S3 stores for a body without one (since December 2024).
inline constexpr Algorithm default_checksum = Algorithm::crc64nvme;
// For an HTTP body. PUTs by token and native PUTs, which have no MD5 either, get none unless the client asks for one.
void add_default_checksum(PutRequest& put);

// The checksum in a request's header, if any. invalid_request: more than one.
Result<std::optional<store::Checksum>> header_checksum(const Context& context);

// Content-MD5 and x-amz-checksum-* of a document that was read whole: bad_digest, invalid_digest.
Result<void> verify_document(const Context& context, std::string_view text);

// For calls whose document needs a digest at AWS: Content-MD5 or a checksum. invalid_request.
Result<void> require_digest(const Context& context);

// x-amz-checksum-<algorithm> and x-amz-checksum-type.
void add_checksum_headers(Response& response, const std::vector<store::Checksum>& checksums);
// For one part of a completed upload: its own checksum, and the object's type.
void add_part_checksum_headers(Response& response, const store::ObjectInfo& info, size_t index);

// Whether the object's checksum can be computed from those of its parts: only for CRCs.
bool can_be_combined(Algorithm algorithm);
// Object checksums of a completed upload from those of its parts. `full_object`: by combining CRCs; else composite.
// nullopt if a part has none of that algorithm, or it cannot be combined.
std::optional<store::Checksum> combine_checksums(Algorithm algorithm, bool full_object,
                                                 const std::vector<store::PartInfo>& parts);

}  // namespace verbena::s3
