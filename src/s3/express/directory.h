// Directory buckets (S3 Express One Zone): the differences of requests to them. Source: Amazon S3 User Guide,
// "Differences for directory buckets", and the API reference of each call.
#pragma once

#include <string>
#include <string_view>

#include "s3/service.h"

namespace verbena::s3 {

// Checks that the bucket's zone is this server's: invalid_bucket_name.
Result<void> check_zone(const Service& service, std::string_view bucket);

// Whether the caller's session determines the encryption of objects.
bool session_encrypts(const Call& caller);
// The encryption of the caller's objects: the session's, if the request names none. invalid_request: the request names
// another one.
Result<EncryptionWish> session_encryption(const Call& caller, EncryptionWish wish);

}  // namespace verbena::s3
