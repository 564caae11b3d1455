// Temporary credentials, whole inside their session token: nothing of them is kept on the server. The token is sealed
// under the key ring, so that whoever has one can neither read nor change it. Internal to auth/ and iam/.
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
  // The lasting key that it goes back to: it ends when that key is gone, turned off or made anew. Of who signed in by
  // an identity provider: that provider's ARN, likewise.
  std::string parent_key, parent_tag;
  // Neither it nor a session that it opens goes on from then; 0: no such time. Of who came by a certificate: its end.
  int64_t not_after_s = 0;
  std::optional<BucketSession> limits{};  // a session of a directory bucket
  Attributes attributes{};                // of the session, besides its role's
  bool operator==(const SessionContents&) const = default;
};

inline constexpr size_t session_token_bytes_max = 16 * 1024;
inline constexpr size_t session_policy_arns_max = 10;

std::string seal_session(const KeyRing& keys, const SessionContents& contents);
// invalid_token: not one of ours, or not whole.
Result<SessionContents> open_session(const KeyRing& keys, std::string_view token);

// The text that a session token carries encrypted, and back.
std::string encode_session(const SessionContents& contents);
std::optional<SessionContents> decode_session(std::string_view text);

}  // namespace verbena::auth
