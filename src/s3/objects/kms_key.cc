// Ids of KMS keys.
#include <algorithm>

#include "base/hex.h"
#include "s3/objects/encryption.h"

namespace verbena::s3 {
namespace {

constexpr size_t kms_key_id_size_max = 256;

// A plain name can be created on demand. Ids in AWS's forms (an ARN, a UUID, a multi-region id) name keys that must
// exist already.
bool is_made_elsewhere(std::string_view id) {
  const bool uuid = id.size() == 36 && id[8] == '-' && id[13] == '-' && id[18] == '-' && id[23] == '-' &&
                    std::ranges::count_if(id, is_hex_digit) == 32;
  return uuid || id.starts_with("arn:") || id.starts_with("mrk-");
}

}  // namespace

Result<void> check_kms_key(const EncryptionOptions& options, std::string_view id) {
  constexpr std::string_view others = ":/_.-";
  const bool plain = std::ranges::all_of(id, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
  if (id.empty()) {
    return fail(Errc::invalid_kms_key_id,
                "Server Side Encryption with AWS KMS managed key requires HTTP header "
                "x-amz-server-side-encryption-aws-kms-key-id where the server has no default key.");
  }
  if (!plain || id.size() > kms_key_id_size_max) return fail(Errc::invalid_kms_key_id, "kms: key id");
  if (id == options.kms_default_key || std::ranges::find(options.kms_keys, id) != options.kms_keys.end()) return {};
  if (options.kms_keys.empty() && !is_made_elsewhere(id)) return {};
  return fail(Errc::no_such_kms_key, "kms: key id");
}

}  // namespace verbena::s3
