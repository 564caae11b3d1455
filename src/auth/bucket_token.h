// The token of a session of a directory bucket that a lasting key opened. It comes with every request of the session
// and every byte of it is hashed there, so it is short: what it says stands open in it, under a code of the key ring's,
// and the session's own keys are made from it and not kept in it.
//
// Base64 of: format (1) | start of the master key's id (4) | nonce (6) | expires (5) | flags (1) | tag of the key that
// opened it (8) | that key, the bucket and, with KMS, the key's id, each behind its length (1) | code (16).
// (A client knows its own by their form.)
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "auth/auth.h"
#include "auth/keyring.h"
#include "base/result.h"

namespace verbena::auth {

using KeyTag = std::array<std::byte, 8>;

struct BucketToken {
  std::string parent_key;  // the lasting key that it goes back to
  KeyTag parent_tag{};     // tells that key from another one that is made under its name later
  int64_t expires_s = 0;
  BucketSession limits;
  bool operator==(const BucketToken&) const = default;
};

inline constexpr size_t bucket_token_bytes_max = 1024;  // of the text

// Who has the token and the session's keys may sign until it ends.
struct MadeBucketToken {
  BucketToken contents;
  Credentials credentials;
};

// nullopt: it does not fit, as names are too long.
std::optional<Credentials> make_bucket_token(const KeyRing& keys, const BucketToken& contents);
// Whether a token has this form; nothing else of it is checked.
bool is_bucket_token(std::string_view token);
// invalid_token: not one that this ring made.
Result<MadeBucketToken> open_bucket_token(const KeyRing& keys, std::string_view token);

}  // namespace verbena::auth
