// Accounts as they are written to disk: JSON, secrets sealed under the key ring. Internal to auth/.
#pragma once

#include <string>
#include <string_view>

#include "auth/identity.h"
#include "auth/keyring.h"

namespace verbena::auth {

inline constexpr int identity_file_version = 2;

// `secret` as StoredKey::sealed holds it.
std::string seal_secret(const KeyRing& keys, std::string_view access_key, std::string_view secret);

std::string encode_accounts(const AccountMap& accounts);
// malformed: not such a file; its context says what is wrong. unsupported: a later version's. Others: a secret that
// does not open with these keys.
Result<AccountMap> decode_accounts(std::string_view text, const KeyRing& keys);

}  // namespace verbena::auth
