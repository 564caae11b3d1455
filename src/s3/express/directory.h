// Directory buckets (S3 Express One Zone): what is different of a request that names one.
// Source: Amazon S3 User Guide, "Differences for directory buckets", and what the API reference says of each call.
#pragma once

#include <string>
#include <string_view>

#include "s3/context.h"

namespace verbena::s3 {

// The document of a bucket that is no directory bucket, whose objects may be appended to all the same.
inline constexpr std::string_view append_document = "append";

// Whether AWS has the call for directory buckets. `object`: of an object; `selector`: the query parameter that asks for
// it, empty for none.
bool serves_directory(bool object, std::string_view method, std::string_view selector);

// What no request about a directory bucket may hold: not_implemented for headers and arguments that AWS has for other
// buckets alone, invalid_argument and invalid_storage_class for values. `selector`, as above.
Result<void> check_directory_request(Context& context, std::string_view selector);

// Whether the server has this directory bucket's zone: invalid_bucket_name.
Result<void> check_zone(const Service& service, std::string_view bucket);

// x-amz-bucket-location-type and -name, of HeadBucket.
void add_location_headers(Context& context);

// Whether the caller's key is one of a session that settled how objects are encrypted.
bool session_encrypts(const Call& caller);
// How what the caller writes is encrypted where the request says nothing: as his session says. invalid_request: the
// request says something else than the session.
Result<EncryptionWish> session_encryption(const Call& caller, EncryptionWish wish);

}  // namespace verbena::s3
