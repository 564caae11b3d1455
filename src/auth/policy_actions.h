// The names that policies may use. Internal to auth/.
#pragma once

#include <string_view>

#include "auth/policy.h"

namespace verbena::auth {

// "s3:GetObject", "s3:Get*", "*". A resource policy is about S3 alone and must name existing actions of S3; a trust
// policy is about STS; an identity policy may name any service.
bool is_action_pattern(std::string_view text, PolicyKind kind);

// "aws:SourceIp", "s3:prefix". A resource policy must name keys of AWS: a statement with a misspelt key would silently
// never, or always, apply.
bool is_condition_key(std::string_view key, PolicyKind kind);

}  // namespace verbena::auth
