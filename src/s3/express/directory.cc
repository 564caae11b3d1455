#include "s3/express/directory.h"

#include <algorithm>
#include <array>

#include "s3/names.h"

namespace verbena::s3 {

Result<void> check_zone(const Service& service, std::string_view bucket) {
  if (!service.express.enabled) return fail(Errc::invalid_bucket_name, "directory buckets are turned off");
  if (zone_of(bucket) != service.express.zone) {
    return fail(Errc::invalid_bucket_name, "The zone in the bucket's name is not this server's.");
  }
  return {};
}

bool session_encrypts(const Call& caller) {
  const auth::AccessKey* const key = caller.identity.key.get();
  return key != nullptr && key->limits && !key->limits->encryption.empty();
}

Result<EncryptionWish> session_encryption(const Call& caller, EncryptionWish wish) {
  if (!session_encrypts(caller)) return wish;
  const auth::AccessKey* const key = caller.identity.key.get();
  EncryptionWish agreed;
  agreed.method = key->limits->encryption == "aws:kms" ? Encryption::kms : Encryption::aes256;
  agreed.kms_key_id = key->limits->kms_key_id;
  const bool same = wish.method == agreed.method && (wish.kms_key_id.empty() || wish.kms_key_id == agreed.kms_key_id);
  if (wish.method != Encryption::none && !same) {
    return fail(Errc::invalid_request, "The request asks for another encryption than its session.");
  }
  return agreed;
}

}  // namespace verbena::s3
