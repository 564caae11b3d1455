// x-amz-checksum-*, their trailers, and Content-MD5. Source: AWS "Checking object integrity in Amazon S3".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "s3/service.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// x-amz-checksum-algorithm: the checksum to compute for a copy, an upload, or a body without a checksum.
// invalid_request.
Result<std::optional<Algorithm>> read_checksum_algorithm(const Context& context);

// The checksums that a PUT announces. Fills expected, compute, content_md5 and trailing of `put`. invalid_request,
// invalid_checksum, invalid_digest.
Result<void> plan_checksums(const Context& context, PutRequest& put);

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

}  // namespace verbena::s3
