// Directory buckets (S3 Express One Zone): the differences of requests to them. Source: Amazon S3 User Guide,
// "Differences for directory buckets", and what the API reference says of each call.
#pragma once

#include <string>
#include <string_view>

#include "s3/context.h"

namespace verbena::s3 {

// The document of a general purpose bucket that takes appends.
inline constexpr std::string_view append_document = "append";

// Whether AWS has the call for directory buckets. `object`: on an object. `selector`: the query parameter that selects
// it; empty: none.
bool serves_directory(bool object, std::string_view method, std::string_view selector);

// Checks a request to a directory bucket: not_implemented for headers and arguments that AWS has for other buckets
// only, invalid_argument and invalid_storage_class for values. `selector` as above.
Result<void> check_directory_request(Context& context, std::string_view selector);

// Checks that the bucket's zone is this server's: invalid_bucket_name.
Result<void> check_zone(const Service& service, std::string_view bucket);

// x-amz-bucket-location-type and -name, of HeadBucket.
void add_location_headers(Context& context);

// Whether the caller's session determines the encryption of objects.
bool session_encrypts(const Call& caller);
// The encryption of the caller's objects: the session's, if the request names none. invalid_request: the request names
// another one.
Result<EncryptionWish> session_encryption(const Call& caller, EncryptionWish wish);

}  // namespace verbena::s3
