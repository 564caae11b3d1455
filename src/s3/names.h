// Rules for names. Sources: AWS "General purpose bucket naming rules", "Naming Amazon S3 objects".
#pragma once

#include <string_view>

#include "base/result.h"

namespace verbena::s3 {

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool valid_utf8(std::string_view text);

// invalid_bucket_name.
Result<void> check_bucket_name(std::string_view name);

// 1 to 1024 bytes of UTF-8: key_too_long, invalid_uri, invalid_argument (empty).
Result<void> check_key(std::string_view key);

}  // namespace verbena::s3
