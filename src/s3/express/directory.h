// Directory buckets (S3 Express One Zone): what is different of a request that names one.
// Source: Amazon S3 User Guide, "Differences for directory buckets", and what the API reference says of each call.
#pragma once

#include <string>
#include <string_view>

#include "s3/service.h"

namespace verbena::s3 {

// Whether the server has this directory bucket's zone: invalid_bucket_name.
Result<void> check_zone(const Service& service, std::string_view bucket);

// Whether the caller's key is one of a session that settled how objects are encrypted.
bool session_encrypts(const Call& caller);
// How what the caller writes is encrypted where the request says nothing: as his session says. invalid_request: the
// request says something else than the session.
Result<EncryptionWish> session_encryption(const Call& caller, EncryptionWish wish);

}  // namespace verbena::s3
