// Policies in the language of AWS IAM: parsed once, evaluated per request in microseconds.
// Sources: AWS IAM User Guide, "IAM JSON policy reference" and "Policy evaluation logic".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::auth {

class Policy;
using PolicyPtr = std::shared_ptr<const Policy>;

// What a policy is attached to. A resource policy (of a bucket) names principals in each statement, an identity policy
// (of a user, group or session) must not; a trust policy (of a role) names principals and no resources.
enum class PolicyKind : uint8_t { identity, resource, trust };

// Errors: malformed_policy, whose context says what is wrong; too_large.
Result<PolicyPtr> parse_policy(std::string_view json, PolicyKind kind);

}  // namespace verbena::auth
