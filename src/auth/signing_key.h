// Caches of derived signing keys. Internal to auth/.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "auth/auth.h"
#include "base/hmac.h"

namespace verbena::auth {

// A derived key, ready to sign with.
struct SigningKey {
  std::array<std::byte, 32> bytes{};
  HmacSha256 hmac;
};

SigningKey make_signing_key(std::string_view secret, std::string_view date, std::string_view region,
                            std::string_view service);

// A session's cached key, of the last scope that it signed for: it is freed with the session, so that one account's
// sessions do not evict other keys.
struct LastSigningKey {
  std::string scope;
  SigningKey key;
};

// Deriving a key costs four HMACs and its result holds for a day. Direct-mapped: a collision evicts, nothing grows. One
// per thread, so that no look-up takes a lock. Only keys whose signature was verified are added, so that an
// unauthenticated caller cannot evict the ones in use.
class SigningKeyCache {
 public:
  // `scope`: date, region and service, as scope_of() writes them.
  const SigningKey* find(const Credentials& credentials, std::string_view scope) const;  // null: not cached
  void put(const Credentials& credentials, std::string_view scope, const SigningKey& key);

 private:
  struct Entry {
    std::string access_key, secret_key, scope;  // the secret too: after a change of the secret the entry must not match
    SigningKey key{};
  };
  static constexpr size_t slots = 64;
  static size_t slot_of(std::string_view access_key, std::string_view scope);
  static bool matches(const Entry& entry, const Credentials& credentials, std::string_view scope);

  std::array<Entry, slots> entries_;
};

}  // namespace verbena::auth
