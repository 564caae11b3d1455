// Temporary credentials, stored entirely in their session token: the server keeps nothing of them. The token is
// encrypted under the key ring, so that its holder can neither read nor change it. Internal to auth/ and iam/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/attributes.h"
#include "auth/auth.h"
#include "auth/keyring.h"
#include "auth/principal.h"
#include "base/result.h"

namespace verbena::auth {

struct SessionContents {
  std::string access_key, secret_key;
  int64_t expires_s = 0;
  std::string account_id;
  Principal::Kind kind = Principal::Kind::user;
  std::string subject, subject_id;  // name and unique id of the user or role; empty for an account's root
  std::string session_name;         // of a role's session
  std::string policy;               // session policy; empty for none
  std::vector<std::string> policy_arns;
  int64_t issued_s = 0;
  // Its long-term key: the session ends when that key is deleted, deactivated or created again. For a caller signed in
  // by an identity provider: that provider's ARN, likewise.
  std::string parent_key, parent_tag;
  // The end of the session and of sessions opened by it; 0: none. For a caller with a certificate: the certificate's
  // end.
  int64_t not_after_s = 0;
  std::optional<BucketSession> limits{};  // a session of a directory bucket
  Attributes attributes{};                // of the session, besides its role's
  bool operator==(const SessionContents&) const = default;
};

inline constexpr size_t session_token_bytes_max = 16 * 1024;
inline constexpr size_t session_policy_arns_max = 10;

std::string seal_session(const KeyRing& keys, const SessionContents& contents);
// invalid_token: not made by this server, or damaged.
Result<SessionContents> open_session(const KeyRing& keys, std::string_view token);

// Encodes and decodes the text that a session token carries encrypted.
std::string encode_session(const SessionContents& contents);
std::optional<SessionContents> decode_session(std::string_view text);

}  // namespace verbena::auth
