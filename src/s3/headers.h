// Headers that belong to an object: what a PUT may set, what a GET gives back.
#pragma once

#include <string>

#include "s3/context.h"
#include "s3/service.h"

namespace verbena::s3 {

// Of PutObject, CreateMultipartUpload and CopyObject with REPLACE: system headers and x-amz-meta-*.
// "aws-chunked" is taken out of Content-Encoding: it speaks of the transfer. invalid_argument, metadata_too_large.
Result<Headers> read_object_headers(const Context& context);

// For headers from any door: known names, no control characters in values, user metadata up to 2 KiB (names without
// their prefix, plus values), system headers up to 8 KiB.
Result<void> check_object_headers(const Headers& headers);

// Of an object or upload with these headers; "STANDARD" is not kept among them.
std::string storage_class(const Headers& headers);
void set_storage_class(Headers& headers, std::string_view name);
// The storage class of a new object, for every door: EXPRESS_ONEZONE in directory buckets and nowhere else
// (invalid_storage_class), and STANDARD is what an object without a class has.
Result<void> settle_storage_class(Headers& headers, std::string_view bucket);

// invalid_argument, invalid_storage_class and access_denied for values that are wrong anywhere; not_implemented for
// headers that ask for what does not exist here: an encryption context, ACLs, grants, other storage classes, ... A
// request must not seem to have been obeyed. Sets error_fields.
Result<void> refuse_unimplemented_headers(Context& context);

// ETag, Last-Modified, Accept-Ranges, and the object's own headers.
void add_object_headers(Response& response, const store::ObjectInfo& info);

// response-content-type and its siblings. invalid_argument for control characters.
Result<void> apply_response_overrides(Context& context);

}  // namespace verbena::s3
