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

// x-amz-checksum-algorithm: what a copy or upload is to be summed with, and a body that brings no checksum.
// invalid_request.
Result<std::optional<Algorithm>> read_checksum_algorithm(const Context& context);

// What a PUT announces. Fills expected, compute, content_md5 and trailing of `put`. invalid_request, invalid_checksum,
// invalid_digest.
Result<void> plan_checksums(const Context& context, PutRequest& put);

// What S3 keeps of a body that brings no checksum of its own (since December 2024).
inline constexpr Algorithm default_checksum = Algorithm::crc64nvme;
// For an HTTP body. RDMA and native PUTs, which have no MD5 either, go without unless the client asks for one.
void add_default_checksum(PutRequest& put);

// The checksum that a request's header gives, if any. More than one is invalid_request.
Result<std::optional<store::Checksum>> header_checksum(const Context& context);

// Content-MD5 and x-amz-checksum-* of a document that was read whole: bad_digest, invalid_digest.
Result<void> verify_document(const Context& context, std::string_view text);

// Where AWS demands a digest of the request's document: Content-MD5 or any checksum, announced. invalid_request.
Result<void> require_digest(const Context& context);

// x-amz-checksum-<algorithm> and x-amz-checksum-type.
void add_checksum_headers(Response& response, const std::vector<store::Checksum>& checksums);
// Of one part of a completed upload: its own checksum, and the type that the object has.
void add_part_checksum_headers(Response& response, const store::ObjectInfo& info, size_t index);

// Whether a full object's checksum can be made from those of its parts: of CRCs alone.
bool can_be_combined(Algorithm algorithm);
// Object checksums of a completed upload from those of its parts. `full_object`: by combining CRCs; else composite.
// nullopt when a part has none of that algorithm, or it is none of those that can be combined.
std::optional<store::Checksum> combine_checksums(Algorithm algorithm, bool full_object,
                                                 const std::vector<store::PartInfo>& parts);

}  // namespace verbena::s3
