// Rules for names. Sources: AWS "General purpose bucket naming rules", "Naming Amazon S3 objects".
#pragma once

#include <string_view>

#include "base/result.h"

namespace verbena::s3 {

// invalid_bucket_name. For directory buckets only the form is checked, not the zone.
Result<void> check_bucket_name(std::string_view name);

// Whether the name is a directory bucket's, "base--zone--x-s3". Names of other buckets cannot end like that.
inline bool is_directory_bucket(std::string_view name) { return name.ends_with("--x-s3"); }
// The zone in such a name; empty for a name without one.
std::string_view zone_of(std::string_view name);

// 1 to 1024 bytes of UTF-8: key_too_long, invalid_uri, invalid_argument (empty).
Result<void> check_key(std::string_view key);
// For a new object: also refuses a NUL (invalid_argument), which a listing in XML could not show. Existing objects with
// such keys can still be read and removed.
Result<void> check_new_key(std::string_view key);

}  // namespace verbena::s3
