// Rules for names. Sources: AWS "General purpose bucket naming rules", "Naming Amazon S3 objects".
#pragma once

#include <string_view>

#include "base/result.h"

namespace verbena::s3 {

// invalid_bucket_name. Names of directory buckets are sound in form; which of them there can be is another question.
Result<void> check_bucket_name(std::string_view name);

// Whether the name is a directory bucket's, "base--zone--x-s3". Of no other bucket it ends so.
inline bool is_directory_bucket(std::string_view name) { return name.ends_with("--x-s3"); }
// The zone in such a name; empty for a name without one.
std::string_view zone_of(std::string_view name);

// 1 to 1024 bytes of UTF-8: key_too_long, invalid_uri, invalid_argument (empty).
Result<void> check_key(std::string_view key);
// Of an object that is to be made: a NUL besides (invalid_argument), which no listing in XML could show. Such a key
// that is there from before can still be read and removed.
Result<void> check_new_key(std::string_view key);

}  // namespace verbena::s3
