// The names that policies may use. Internal to auth/.
#pragma once

#include <string_view>

#include "auth/policy.h"

namespace verbena::auth {

// "s3:GetObject", "s3:Get*", "*". A resource policy is about S3 alone and must name actions that S3 has; a trust policy
// is about STS; an identity policy may speak of any service.
bool is_action_pattern(std::string_view text, PolicyKind kind);

// "aws:SourceIp", "s3:prefix". A resource policy must name keys that AWS has: a statement with a key that is misspelt
// would quietly never, or always, hold.
bool is_condition_key(std::string_view key, PolicyKind kind);

}  // namespace verbena::auth
