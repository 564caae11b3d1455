// Headers of requests and answers: which are allowed, which are stored with an object, which a GET returns.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "s3_http/context.h"
#include "s3_http/header_table.h"

namespace verbena::s3 {

// Of PutObject, CreateMultipartUpload and CopyObject with REPLACE: system headers and x-amz-meta-*. "aws-chunked" is
// removed from Content-Encoding, because it is about the transfer. invalid_argument, metadata_too_large.
Result<Headers> read_object_headers(const Context& context);

// Checks each x-amz-* and x-verbena-* header and each condition of a request of that kind. not_implemented for headers
// that header_table.h does not allow, and for values of features that do not exist here: such a request must not seem
// to succeed. invalid_argument, invalid_request and invalid_storage_class for values that are always wrong. Sets
// error_fields.
Result<void> check_request_headers(Context& context, RequestKind kind);

// ETag, Last-Modified, Accept-Ranges, and the object's own headers.
void add_object_headers(Response& response, const store::ObjectInfo& info);

// response-content-type and its siblings. invalid_argument for control characters.
Result<void> apply_response_overrides(Context& context);

}  // namespace verbena::s3
