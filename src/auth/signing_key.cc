#include "auth/signing_key.h"

#include <functional>

#include "base/bytes.h"
#include "base/checksum.h"

namespace verbena::auth {

std::array<std::byte, 32> signing_key(std::string_view secret, std::string_view date, std::string_view region,
                                      std::string_view service) {
  std::string seed = "AWS4";
  seed += secret;
  Sha256 key = HmacSha256(as_bytes(seed)).sign(as_bytes(date));
  for (std::string_view step : {region, service, std::string_view("aws4_request")}) {
    key = HmacSha256(key).sign(as_bytes(step));
  }
  return key;
}

SigningKey make_signing_key(std::string_view secret, std::string_view date, std::string_view region,
                            std::string_view service) {
  SigningKey key;
  key.bytes = signing_key(secret, date, region, service);
  key.hmac = HmacSha256(key.bytes);
  return key;
}

size_t SigningKeyCache::slot_of(std::string_view access_key, std::string_view scope) {
  const std::hash<std::string_view> hash;
  return (hash(access_key) * 31 + hash(scope)) % slots;
}

bool SigningKeyCache::matches(const Entry& entry, const Credentials& credentials, std::string_view scope) {
  return entry.access_key == credentials.access_key && entry.scope == scope &&
         equal_constant_time(as_bytes(entry.secret_key), as_bytes(credentials.secret_key));
}

const SigningKey* SigningKeyCache::find(const Credentials& credentials, std::string_view scope) const {
  const Entry& entry = entries_[slot_of(credentials.access_key, scope)];
  return matches(entry, credentials, scope) ? &entry.key : nullptr;
}

void SigningKeyCache::put(const Credentials& credentials, std::string_view scope, const SigningKey& key) {
  const size_t slot = slot_of(credentials.access_key, scope);
  entries_[slot] = Entry{credentials.access_key, credentials.secret_key, std::string(scope), key};
}

}  // namespace verbena::auth
