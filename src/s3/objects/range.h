// Byte ranges (RFC 9110 section 14).
#pragma once

#include <optional>
#include <string_view>

#include "s3/service.h"

namespace verbena::s3 {

// The one range of a Range header. nullopt when the header is ignored: another unit, bad syntax, or several ranges (S3
// does not support those and answers with the whole object).
std::optional<ByteRange> parse_range(std::string_view header);

// x-amz-copy-source-range: "bytes=first-last", nothing else. invalid_argument.
Result<ByteRange> parse_copy_range(std::string_view header);

struct Extent {
  uint64_t offset = 0;
  uint64_t length = 0;
  bool partial = false;
};

// The range within an object of `size` bytes. invalid_range if it contains no byte.
Result<Extent> resolve_range(const ByteRange& range, uint64_t size);

}  // namespace verbena::s3
