// The compiled form of a policy. Internal to auth/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/policy.h"
#include "auth/policy_condition.h"
#include "auth/policy_pattern.h"

namespace verbena::auth {

// The callers that one string of a Principal element names.
struct PrincipalName {
  enum class Kind : uint8_t {
    everyone,  // "*"
    account,   // id or canonical id: "123456789012", arn:aws:iam::ID:root, CanonicalUser
    user,      // arn:aws:iam::ACCOUNT:user/NAME
    role,      // arn:aws:iam::ACCOUNT:role/NAME
    session,   // arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION
    provider,  // {"Federated": ARN of an identity provider}, which is the name
    nobody,    // a service or another identity provider: no caller here
  };
  Kind kind = Kind::nobody;
  std::string account;  // id or canonical id; empty: `name` may be an account's
  std::string name;     // after "user/", "role/" or "assumed-role/"
};

// Parses one string of a Principal element: {"AWS": text}. nullopt: not a principal.
std::optional<PrincipalName> parse_aws_principal(std::string_view text);
// {"Federated": text}: any text, since policies may name providers that are unknown here.
PrincipalName parse_federated_principal(std::string_view text);
Reach reach_of(const PrincipalName& name, const Principal* principal);

struct Statement {
  bool allow = false;
  bool not_principals = false, not_actions = false, not_resources = false;
  std::vector<PrincipalName> principals;
  std::vector<Pattern> actions;
  std::vector<Pattern> resources;
  std::vector<std::string> resource_texts;  // as in the policy
  std::vector<Condition> conditions;
};

class Policy {
 public:
  PolicyKind kind = PolicyKind::identity;
  std::vector<Statement> statements;
  std::string text;
};

}  // namespace verbena::auth
