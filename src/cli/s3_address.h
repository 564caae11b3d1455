// "s3://bucket/key".
#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace verbena::cli {

struct S3Address {
  std::string bucket;
  std::string key;  // unencoded; may be empty
  std::string text() const { return "s3://" + bucket + (key.empty() ? "" : "/" + key); }
};

inline bool is_s3_address(std::string_view text) { return text.starts_with("s3://"); }

// The error is a sentence. "s3://b" and "s3://b/" have an empty key; every later byte belongs to the key.
std::expected<S3Address, std::string> parse_s3_address(std::string_view text);

}  // namespace verbena::cli
