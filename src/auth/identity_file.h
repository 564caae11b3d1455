// The file format of accounts: JSON, secrets encrypted under the key ring. Internal to auth/.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "auth/identity.h"
#include "auth/keyring.h"

namespace verbena::auth {

inline constexpr int identity_file_version = 2;

// Encrypts `secret` for StoredKey::sealed.
std::string seal_secret(const KeyRing& keys, std::string_view access_key, std::string_view secret);

std::string encode_accounts(const AccountMap& accounts);

// Encodes the accounts again and again, and of these only the ones that have changed: an account's text is kept with
// its entry. For use by one thread at a time.
class AccountTexts {
 public:
  // encode_accounts(now). limit_exceeded: an account whose text is longer than `account_bytes_max`, and longer than it
  // was in `before`. So what is above a limit can still be made smaller.
  Result<std::string> encode(const AccountMap& now, const AccountMap& before, uint64_t account_bytes_max);
  // How many accounts were encoded since the beginning.
  uint64_t encoded() const { return encoded_; }

 private:
  struct Text {
    AccountEntryPtr of;
    std::string text;
  };
  const std::string& text_of(const std::string& id, const AccountEntryPtr& entry);

  std::map<std::string, Text> texts_;  // by account id
  uint64_t encoded_ = 0;
};
// malformed: not such a file; its context has the reason. unsupported: written by a later version. Others: a secret
// that these keys do not decrypt.
Result<AccountMap> decode_accounts(std::string_view text, const KeyRing& keys);

}  // namespace verbena::auth
