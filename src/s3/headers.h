// Headers of an object, set by a PUT and returned by a GET.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "s3/context.h"
#include "s3/header_table.h"
#include "s3/service.h"

namespace verbena::s3 {

// Of PutObject, CreateMultipartUpload and CopyObject with REPLACE: system headers and x-amz-meta-*. "aws-chunked" is
// removed from Content-Encoding, because it is about the transfer. invalid_argument, metadata_too_large.
Result<Headers> read_object_headers(const Context& context);

// For headers from any door: known names, no control characters in values, user metadata up to 2 KiB (names without
// their prefix, plus values), system headers up to 8 KiB, a redirect as S3 has it.
Result<void> check_object_headers(const Headers& headers);

// Of an object or upload with these headers; "STANDARD" is not kept among them.
std::string storage_class(const Headers& headers);
void set_storage_class(Headers& headers, std::string_view name);
inline constexpr std::string_view redirect_header = "x-amz-website-redirect-location";
// Replaces the redirect among the headers by `location`; empty: removes it. invalid_argument.
Result<void> set_redirect(Headers& headers, std::optional<std::string_view> location);
// The storage class of a new object, for every door: EXPRESS_ONEZONE in directory buckets and nowhere else
// (invalid_storage_class), and STANDARD is stored as no class.
Result<void> settle_storage_class(Headers& headers, std::string_view bucket);

// Checks each x-amz-* and x-verbena-* header and each condition of a request of that kind. not_implemented for headers
// that header_table.h does not allow, and for values of features that do not exist here: a request must not seem to be
// obeyed when it is not. invalid_argument, invalid_request and invalid_storage_class for values that are always wrong.
// Sets error_fields.
Result<void> check_request_headers(Context& context, RequestKind kind);

// ETag, Last-Modified, Accept-Ranges, and the object's own headers.
void add_object_headers(Response& response, const store::ObjectInfo& info);

// response-content-type and its siblings. invalid_argument for control characters.
Result<void> apply_response_overrides(Context& context);

}  // namespace verbena::s3
