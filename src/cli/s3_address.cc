#include "cli/s3_address.h"

namespace verbena::cli {

std::expected<S3Address, std::string> parse_s3_address(std::string_view text) {
  if (!is_s3_address(text)) return std::unexpected("expected s3://BUCKET/KEY");
  text.remove_prefix(5);
  const size_t slash = text.find('/');
  S3Address out;
  out.bucket = text.substr(0, slash);
  if (slash != text.npos) out.key = text.substr(slash + 1);
  if (out.bucket.empty()) return std::unexpected("the bucket name is missing: expected s3://BUCKET/KEY");
  for (char c : out.bucket) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
    if (!good) return std::unexpected("a bucket name has lower-case letters, digits, '.' and '-' only");
  }
  if (out.key.size() > 1024) return std::unexpected("the key is longer than 1024 bytes");
  return out;
}

}  // namespace verbena::cli
