// The file format of accounts: JSON, secrets encrypted under the key ring. Internal to auth/.
#pragma once

#include <string>
#include <string_view>

#include "auth/identity.h"
#include "auth/keyring.h"

namespace verbena::auth {

inline constexpr int identity_file_version = 2;

// Encrypts `secret` for StoredKey::sealed.
std::string seal_secret(const KeyRing& keys, std::string_view access_key, std::string_view secret);

std::string encode_accounts(const AccountMap& accounts);
// malformed: not such a file; its context has the reason. unsupported: written by a later version. Others: a secret
// that these keys do not decrypt.
Result<AccountMap> decode_accounts(std::string_view text, const KeyRing& keys);

}  // namespace verbena::auth
