// Evaluation of policies: each alone, then all of them together.
#include <algorithm>

#include "auth/policy_statement.h"
#include "auth/principal.h"

namespace verbena::auth {
namespace {

bool any_matches(const std::vector<Pattern>& patterns, std::string_view text, Inquiry& inquiry, Letters letters) {
  return std::ranges::any_of(patterns, [&](const Pattern& p) { return p.matches(text, inquiry, letters); });
}

// Whether the statement's action, resource and conditions match; its principals are checked separately.
bool concerns(const Statement& statement, Inquiry& inquiry, PolicyKind kind) {
  const Question& question = inquiry.question;
  if (any_matches(statement.actions, question.action, inquiry, Letters::any_case) == statement.not_actions) {
    return false;
  }
  if (kind != PolicyKind::trust &&
      any_matches(statement.resources, question.resource, inquiry, Letters::exact) == statement.not_resources) {
    return false;
  }
  return std::ranges::all_of(statement.conditions, [&](const Condition& c) { return c.holds(inquiry); });
}

Reach reach_of(const Statement& statement, const Principal* principal) {
  Reach reach = Reach::none;
  for (const PrincipalName& name : statement.principals) reach = std::max(reach, reach_of(name, principal));
  if (!statement.not_principals) return reach;
  // NotPrincipal exempts only callers that it names themselves; naming their account exempts no caller in it.
  return reach < Reach::principal ? Reach::principal : Reach::none;
}

Effect evaluate(const Policy& policy, Inquiry& inquiry) {
  Effect effect = Effect::none;
  for (const Statement& statement : policy.statements) {
    const bool concerned = concerns(statement, inquiry, policy.kind);
    if (inquiry.exhausted()) return Effect::deny;
    if (!concerned) continue;
    if (!statement.allow) return Effect::deny;
    effect = Effect::allow;
  }
  return effect;
}

ResourceEffect evaluate_resource(const Policy& policy, Inquiry& inquiry) {
  constexpr ResourceEffect denial{.denied = true, .allowed = Reach::none};
  ResourceEffect effect;
  for (const Statement& statement : policy.statements) {
    const Reach reach = reach_of(statement, inquiry.question.principal);
    if (reach == Reach::none) continue;
    const bool concerned = concerns(statement, inquiry, policy.kind);
    if (inquiry.exhausted()) return denial;
    if (!concerned) continue;
    if (!statement.allow) return denial;
    effect.allowed = std::max(effect.allowed, reach);
  }
  return effect;
}

// Whether the pattern of a resource can match an object of the bucket. Patterns with variables count as matching.
bool may_lie_in(std::string_view arn, std::string_view bucket) {
  constexpr std::string_view objects = "arn:aws:s3:::";
  if (!arn.starts_with(objects)) return true;
  const std::string_view rest = arn.substr(objects.size());
  const size_t plain = rest.find_first_of("*?$/");
  if (plain == std::string_view::npos) return false;  // the bucket itself
  return rest[plain] == '/' ? rest.substr(0, plain) == bucket : bucket.starts_with(rest.substr(0, plain));
}

bool could_concern(const Statement& statement, Inquiry& inquiry, std::string_view bucket) {
  const Question& question = inquiry.question;
  if (!statement.allow ||
      any_matches(statement.actions, question.action, inquiry, Letters::any_case) == statement.not_actions) {
    return false;
  }
  if (statement.not_resources) return true;
  if (bucket.empty()) return any_matches(statement.resources, question.resource, inquiry, Letters::exact);
  return std::ranges::any_of(statement.resource_texts, [&](const auto& text) { return may_lie_in(text, bucket); });
}

bool any_could_concern(const std::vector<PolicyPtr>& policies, Inquiry& inquiry, std::string_view bucket) {
  return std::ranges::any_of(policies, [&](const PolicyPtr& policy) {
    return std::ranges::any_of(policy->statements,
                               [&](const Statement& s) { return could_concern(s, inquiry, bucket); });
  });
}

// The effect of several policies together: a denial in any of them, else an allowance in any.
Effect evaluate_all(const std::vector<PolicyPtr>& policies, Inquiry& inquiry) {
  Effect effect = Effect::none;
  for (const PolicyPtr& policy : policies) {
    effect = std::max(effect, evaluate(*policy, inquiry));
    if (effect == Effect::deny) break;
  }
  return effect;
}

}  // namespace

Effect evaluate(const Policy& policy, const Question& question) {
  Inquiry inquiry(question);
  return evaluate(policy, inquiry);
}

ResourceEffect evaluate_resource(const Policy& policy, const Question& question) {
  Inquiry inquiry(question);
  return evaluate_resource(policy, inquiry);
}

Decision decide(const Question& question, const Resource& resource) {
  const Principal* const principal = question.principal;
  Inquiry inquiry(question);
  ResourceEffect given;
  if (resource.policy != nullptr) given = evaluate_resource(*resource.policy, inquiry);
  if (given.denied) return Decision::denied;
  const bool own = principal != nullptr && (principal->superuser || principal->account->canonical_id == resource.owner);
  if (!resource.allows || (resource.own_account_only && !own)) given.allowed = Reach::none;
  const Reach reach = std::max(given.allowed, resource.granted);
  if (principal == nullptr) return reach >= Reach::principal ? Decision::allowed : Decision::refused;

  const Effect identity = evaluate_all(principal->policies, inquiry);
  const Effect session = evaluate_all(principal->session, inquiry);
  if (identity == Effect::deny || session == Effect::deny) return Decision::denied;
  const bool root = principal->superuser || principal->kind == Principal::Kind::account_root;
  const bool by_identity = root || identity == Effect::allow;
  const bool in_session = principal->session.empty() || session == Effect::allow;
  // A resource policy that names the session itself grants to it, whatever its session policies omit.
  if (own && reach == Reach::session) return Decision::allowed;
  const bool base = own ? by_identity || reach >= Reach::principal : by_identity && reach >= Reach::account;
  return base && in_session ? Decision::allowed : Decision::refused;
}

bool could_allow(const Question& question, const Resource& resource, std::string_view bucket) {
  const Principal* const principal = question.principal;
  Inquiry inquiry(question);
  Reach reach = resource.granted;
  const bool own = principal != nullptr && (principal->superuser || principal->account->canonical_id == resource.owner);
  if (resource.policy != nullptr && resource.allows && (own || !resource.own_account_only)) {
    for (const Statement& statement : resource.policy->statements) {
      if (could_concern(statement, inquiry, bucket)) reach = std::max(reach, reach_of(statement, principal));
    }
  }
  if (principal == nullptr) return reach >= Reach::principal;
  const bool by_identity = principal->superuser || principal->kind == Principal::Kind::account_root ||
                           any_could_concern(principal->policies, inquiry, bucket);
  const bool in_session = principal->session.empty() || any_could_concern(principal->session, inquiry, bucket);
  if (own && reach == Reach::session) return true;
  const bool base = own ? by_identity || reach >= Reach::principal : by_identity && reach >= Reach::account;
  return base && in_session;
}

bool is_public(const Policy& policy) {
  return std::ranges::any_of(policy.statements, [](const Statement& statement) {
    const bool everyone = std::ranges::any_of(
        statement.principals, [](const PrincipalName& n) { return n.kind == PrincipalName::Kind::everyone; });
    return statement.allow && everyone &&
           std::ranges::none_of(statement.conditions, [](const Condition& c) { return c.fixes_values(); });
  });
}

bool concerns_only(const Policy& policy, std::string_view bucket) {
  const auto inside = [&](std::string_view arn) {
    // "arn:PARTITION:s3:REGION:ACCOUNT:BUCKET[/KEY]", of a directory bucket "...:s3express:...:bucket/BUCKET"
    constexpr std::string_view general = "arn:aws:s3:", express = "arn:aws:s3express:", kind = "bucket/";
    const bool directory = arn.starts_with(express);
    if (!directory && !arn.starts_with(general)) return false;
    const size_t path = arn.find(':', arn.find(':', (directory ? express : general).size()) + 1);
    if (path == std::string_view::npos) return false;
    std::string_view rest = arn.substr(path + 1);
    if (directory) {
      if (!rest.starts_with(kind)) return false;
      rest.remove_prefix(kind.size());
    }
    const auto name = Pattern::parse(rest.substr(0, rest.find('/')), {.wildcards = true, .variables = false});
    const Question none;
    Inquiry inquiry(none);
    return name && name->matches(bucket, inquiry);
  };
  return std::ranges::all_of(policy.statements, [&](const Statement& statement) {
    return std::ranges::all_of(statement.resource_texts, inside);
  });
}

const std::string& policy_text(const Policy& policy) { return policy.text; }

}  // namespace verbena::auth
