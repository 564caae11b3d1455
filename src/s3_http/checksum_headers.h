// x-amz-checksum-*, their trailers, and Content-MD5. Source: AWS "Checking object integrity in Amazon S3".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "s3/service.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// x-amz-checksum-algorithm: what a copy or upload is to be summed with, and a body that brings no checksum.
// invalid_request.
Result<std::optional<Algorithm>> read_checksum_algorithm(const Context& context);

// What a PUT announces. Fills expected, compute, content_md5 and trailing of `put`. invalid_request, invalid_checksum,
// invalid_digest.
Result<void> plan_checksums(const Context& context, PutRequest& put);

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

}  // namespace verbena::s3
