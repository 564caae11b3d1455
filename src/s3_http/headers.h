// Headers of requests and answers: which may be there, what of them belongs to an object, what a GET gives back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "s3_http/context.h"
#include "s3_http/header_table.h"

namespace verbena::s3 {

// Of PutObject, CreateMultipartUpload and CopyObject with REPLACE: system headers and x-amz-meta-*.
// "aws-chunked" is taken out of Content-Encoding: it speaks of the transfer. invalid_argument, metadata_too_large.
Result<Headers> read_object_headers(const Context& context);

// Looks at each x-amz-* and x-verbena-* header and each condition of a request of that kind. not_implemented for what
// the table of headers (header_table.h) does not let it have, and for values that ask for what does not exist here: a
// request must not seem to have been obeyed. invalid_argument, invalid_request and invalid_storage_class for values
// that are wrong anywhere. Sets error_fields.
Result<void> check_request_headers(Context& context, RequestKind kind);

// ETag, Last-Modified, Accept-Ranges, and the object's own headers.
void add_object_headers(Response& response, const store::ObjectInfo& info);

// response-content-type and its siblings. invalid_argument for control characters.
Result<void> apply_response_overrides(Context& context);

}  // namespace verbena::s3
