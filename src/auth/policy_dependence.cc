#include "auth/policy_dependence.h"

#include <algorithm>

#include "auth/policy_statement.h"

namespace verbena::auth {

bool depends_on_request(const Policy& policy) {
  if (policy.text.find("${") != std::string::npos) return true;
  const auto of_mode = [](const Condition& condition) { return condition.key() == "s3express:sessionmode"; };
  return std::ranges::any_of(policy.statements, [&](const Statement& statement) {
    return !std::ranges::all_of(statement.conditions, of_mode);
  });
}

bool depends_on_request(const Principal& principal) {
  const auto depends = [](const PolicyPtr& policy) { return depends_on_request(*policy); };
  return std::ranges::any_of(principal.policies, depends) || std::ranges::any_of(principal.session, depends);
}

}  // namespace verbena::auth
