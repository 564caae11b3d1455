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

size_t SigningKeyCache::slot_of(std::string_view access_key, std::string_view date, std::string_view region) {
  const std::hash<std::string_view> hash;
  return (hash(access_key) * 31 + hash(date) * 7 + hash(region)) % slots;
}

bool SigningKeyCache::matches(const Entry& entry, const Credentials& credentials, std::string_view date,
                              std::string_view region) {
  return entry.access_key == credentials.access_key && entry.date == date && entry.region == region &&
         equal_constant_time(as_bytes(entry.secret_key), as_bytes(credentials.secret_key));
}

bool SigningKeyCache::find(const Credentials& credentials, std::string_view date, std::string_view region,
                           SigningKey& out) const {
  const size_t slot = slot_of(credentials.access_key, date, region);
  std::shared_lock lock(mutex_);
  const Entry& entry = entries_[slot];
  if (!matches(entry, credentials, date, region)) return false;
  out = entry.key;
  return true;
}

void SigningKeyCache::put(const Credentials& credentials, std::string_view date, std::string_view region,
                          const SigningKey& key) {
  const size_t slot = slot_of(credentials.access_key, date, region);
  std::unique_lock lock(mutex_);
  entries_[slot] = Entry{credentials.access_key, credentials.secret_key, std::string(date), std::string(region), key};
}

}  // namespace verbena::auth
