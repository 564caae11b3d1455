// The token of a directory bucket's session, opened by a long-term key. It is sent and hashed with every request of the
// session, so it is short: its contents are not encrypted but authenticated by a code of the key ring, and the
// session's own keys are derived from it instead of being stored in it.
//
// Base64 of: format (1) | start of the master key's id (4) | nonce (6) | expires (5) | flags (1) | tag of the key that
// opened it (8) | that key, the bucket and, with KMS, the key's id, each preceded by its length (1) | code (16).
// (A client recognizes its own tokens by this format.)
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
  std::string parent_key;  // the long-term key that opened the session
  KeyTag parent_tag{};     // differs for a later key of the same name
  int64_t expires_s = 0;
  BucketSession limits;
  bool operator==(const BucketToken&) const = default;
};

inline constexpr size_t bucket_token_bytes_max = 1024;  // of the text

// A holder of the token and the session's keys may sign until it ends.
struct MadeBucketToken {
  BucketToken contents;
  Credentials credentials;
};

// nullopt: the names are too long for the format.
std::optional<Credentials> make_bucket_token(const KeyRing& keys, const BucketToken& contents);
// Whether a token has this format; checks nothing else.
bool is_bucket_token(std::string_view token);
// invalid_token: not made by this ring.
Result<MadeBucketToken> open_bucket_token(const KeyRing& keys, std::string_view token);

}  // namespace verbena::auth
