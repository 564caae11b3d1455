// The Principal element of a policy, and the callers that it names.
#include <algorithm>

#include "auth/policy_statement.h"
#include "auth/principal.h"

namespace verbena::auth {
namespace {

constexpr std::string_view user_prefix = "user/", role_prefix = "role/", session_prefix = "assumed-role/";

bool is_account_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
           c == '.';
  });
}

bool is_entity_name(std::string_view text) {
  return !text.empty() && text.find_first_of("*? ") == std::string_view::npos;
}

// "ACCOUNT:rest" after "arn:aws:iam::".
std::optional<PrincipalName> parse_iam_arn(std::string_view text, bool sts) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view account = text.substr(0, colon);
  const std::string_view entity = text.substr(colon + 1);
  if (!account.empty() && !is_account_name(account)) return std::nullopt;
  using Kind = PrincipalName::Kind;
  if (sts) {
    if (!entity.starts_with(session_prefix)) return std::nullopt;
    const std::string_view name = entity.substr(session_prefix.size());
    if (!is_entity_name(name) || name.find('/') == std::string_view::npos) return std::nullopt;
    return PrincipalName{Kind::session, std::string(account), std::string(name)};
  }
  if (entity == "root" && !account.empty()) return PrincipalName{Kind::account, std::string(account), {}};
  for (const auto& [prefix, kind] : {std::pair(user_prefix, Kind::user), std::pair(role_prefix, Kind::role)}) {
    if (!entity.starts_with(prefix)) continue;
    const std::string_view name = entity.substr(prefix.size());
    if (!is_entity_name(name)) return std::nullopt;
    return PrincipalName{kind, std::string(account), std::string(name)};
  }
  return std::nullopt;
}

bool names_account(std::string_view text, const Account& account) {
  return text == account.id || text == account.canonical_id;
}

Reach account_reach(std::string_view text, const Principal& principal) {
  if (!names_account(text, *principal.account)) return Reach::none;
  return principal.kind == Principal::Kind::account_root ? Reach::principal : Reach::account;
}

// The principal's ARN after `prefix` ("user/path/name"); empty when it is of another kind.
std::string_view entity_of(const Principal& principal, std::string_view prefix) {
  const std::string_view arn = principal.arn;
  const size_t at = arn.find(prefix);
  if (at == std::string_view::npos || at == 0 || arn[at - 1] != ':') return {};
  return arn.substr(at + prefix.size());
}

std::string_view last_of_path(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// RADOS Gateway writes an account as a user without account: arn:aws:iam:::user/ID. An ARN with an account means a user
// in that account alone, even if the user has the name of an account.
Reach user_reach(const PrincipalName& name, const Principal& principal) {
  const bool here = !name.account.empty() && names_account(name.account, *principal.account);
  if (here && principal.kind == Principal::Kind::user && entity_of(principal, user_prefix) == name.name) {
    return Reach::principal;
  }
  return name.account.empty() ? account_reach(name.name, principal) : Reach::none;
}

}  // namespace

std::optional<PrincipalName> parse_aws_principal(std::string_view text) {
  if (text == "*") return PrincipalName{PrincipalName::Kind::everyone, {}, {}};
  constexpr std::string_view iam = "arn:aws:iam::", sts = "arn:aws:sts::";
  if (text.starts_with(iam)) return parse_iam_arn(text.substr(iam.size()), false);
  if (text.starts_with(sts)) return parse_iam_arn(text.substr(sts.size()), true);
  if (is_account_name(text)) return PrincipalName{PrincipalName::Kind::account, std::string(text), {}};
  return std::nullopt;
}

PrincipalName parse_federated_principal(std::string_view text) {
  constexpr std::string_view iam = "arn:aws:iam::";
  const std::string_view entity = text.substr(std::min(text.find(':', std::min(iam.size(), text.size())), text.size()));
  const bool ours = text.starts_with(iam) && (entity.starts_with(":oidc-provider/") || entity.starts_with(":ldap/") ||
                                              entity.starts_with(":certificate/"));
  return ours ? PrincipalName{PrincipalName::Kind::provider, {}, std::string(text)} : PrincipalName{};
}

Reach reach_of(const PrincipalName& name, const Principal* principal) {
  using Kind = PrincipalName::Kind;
  // "Everyone" grants to callers with a key here, and anonymous ones: federated callers must be named to be granted
  // anything, although a denial of everyone applies to them, too.
  const bool federated = principal != nullptr && principal->kind == Principal::Kind::federated;
  if (name.kind == Kind::everyone) return federated ? Reach::account : Reach::principal;
  if (principal == nullptr) return Reach::none;
  switch (name.kind) {
    case Kind::provider:
      return federated && principal->arn == name.name ? Reach::principal : Reach::none;
    case Kind::account:
      return account_reach(name.account, *principal);
    case Kind::user:
      return user_reach(name, *principal);
    case Kind::role:
    case Kind::session: {
      if (principal->kind != Principal::Kind::assumed_role) return Reach::none;
      if (name.account.empty() || !names_account(name.account, *principal->account)) return Reach::none;
      const std::string_view entity = entity_of(*principal, session_prefix);  // "ROLE/SESSION"
      if (name.kind == Kind::session) return entity == name.name ? Reach::session : Reach::none;
      return entity.substr(0, entity.find('/')) == last_of_path(name.name) ? Reach::principal : Reach::none;
    }
    case Kind::everyone:
    case Kind::nobody:
      break;
  }
  return Reach::none;
}

}  // namespace verbena::auth
