#include "auth/signing_key.h"

#include <cstring>
#include <functional>
#include <mutex>

#include "base/bytes.h"
#include "base/checksum.h"

namespace verbena::auth {

SigningKey signing_key(std::string_view secret, std::string_view date, std::string_view region,
                       std::string_view service) {
  std::string key = "AWS4";
  key += secret;
  for (std::string_view step : {date, region, service, std::string_view("aws4_request")}) {
    key = hmac_sha256(as_bytes(key), as_bytes(step));
  }
  SigningKey out;
  std::memcpy(out.data(), key.data(), out.size());
  return out;
}

size_t SigningKeyCache::slot_of(std::string_view access_key, std::string_view scope) {
  const std::hash<std::string_view> hash;
  return (hash(access_key) * 31 + hash(scope)) % slots;
}

bool SigningKeyCache::matches(const Entry& entry, const Credentials& credentials, std::string_view scope) {
  return entry.access_key == credentials.access_key && entry.scope == scope &&
         equal_constant_time(as_bytes(entry.secret_key), as_bytes(credentials.secret_key));
}

bool SigningKeyCache::find(const Credentials& credentials, std::string_view scope, SigningKey& out) const {
  const size_t slot = slot_of(credentials.access_key, scope);
  std::shared_lock lock(mutex_);
  const Entry& entry = entries_[slot];
  if (!matches(entry, credentials, scope)) return false;
  out = entry.key;
  return true;
}

void SigningKeyCache::put(const Credentials& credentials, std::string_view scope, const SigningKey& key) {
  const size_t slot = slot_of(credentials.access_key, scope);
  std::unique_lock lock(mutex_);
  entries_[slot] = Entry{credentials.access_key, credentials.secret_key, std::string(scope), key};
}

}  // namespace verbena::auth
