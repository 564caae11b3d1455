#include "auth/policy_dependence.h"

#include <algorithm>

#include "auth/policy_statement.h"

namespace verbena::auth {
namespace {

// The text is the original JSON, in which "$" and "{" may be written "\u0024" and "\u007b".
bool may_have_variables(const Policy& policy) {
  return policy.text.find("${") != std::string::npos || policy.text.find("\\u") != std::string::npos;
}

// Whether the pattern matches either all names that begin with `prefix`, or none.
bool fits_all_or_none(std::string_view pattern, std::string_view prefix) {
  const std::string_view plain = pattern.substr(0, pattern.find_first_of("*?"));
  if (plain == pattern && plain.size() < prefix.size()) return true;  // a shorter name
  if (plain.size() > prefix.size()) return !plain.starts_with(prefix);
  if (!prefix.starts_with(plain)) return true;
  return pattern.substr(plain.size()) == "*";
}

}  // namespace

bool depends_on_request(const Policy& policy) {
  if (may_have_variables(policy)) return true;
  const auto of_mode = [](const Condition& condition) { return condition.key() == "s3express:sessionmode"; };
  return std::ranges::any_of(policy.statements, [&](const Statement& statement) {
    return !std::ranges::all_of(statement.conditions, of_mode);
  });
}

bool depends_on_request(const Principal& principal) {
  const auto depends = [](const PolicyPtr& policy) { return depends_on_request(*policy); };
  return std::ranges::any_of(principal.policies, depends) || std::ranges::any_of(principal.session, depends);
}

bool depends_on_resource(const Policy& policy, std::string_view prefix) {
  if (may_have_variables(policy)) return true;
  return std::ranges::any_of(policy.statements, [&](const Statement& statement) {
    return !statement.conditions.empty() || !std::ranges::all_of(statement.resource_texts, [&](const auto& text) {
      return fits_all_or_none(text, prefix);
    });
  });
}

bool depends_on_resource(const Principal& principal, std::string_view prefix) {
  const auto depends = [&](const PolicyPtr& policy) { return depends_on_resource(*policy, prefix); };
  return std::ranges::any_of(principal.policies, depends) || std::ranges::any_of(principal.session, depends);
}

}  // namespace verbena::auth
