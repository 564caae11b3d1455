// The object named by x-amz-copy-source.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::s3 {

struct CopySource {
  std::string bucket, key, version_id;
  // "bucket/key", with "?versionId=" if a version is named: for logs.
  std::string text() const;
};

// "bucket/key" or "/bucket/key", percent-encoded, perhaps with "?versionId=". invalid_argument, invalid_copy_source,
// not_implemented (an access point's ARN), invalid_bucket_name, and errors of check_key().
Result<CopySource> parse_copy_source(std::string_view text);

}  // namespace verbena::s3
