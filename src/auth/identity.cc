#include "auth/identity.h"

#include <algorithm>

#include "base/text.h"

namespace verbena::auth {
namespace {

void add_policies(const AccountEntry& account, const PolicySet& policy_set, std::vector<PolicyPtr>& out) {
  for (const auto& [name, document] : policy_set.inline_policies) out.push_back(document.policy);
  for (const std::string& arn : policy_set.attached) {
    if (const ManagedPolicy* policy = find_policy(account, arn)) out.push_back(policy->document.policy);
  }
}

constexpr std::string_view aws_policy_prefix = "arn:aws:iam::aws:policy/";

struct AwsPolicy {
  const char *name, *description, *actions;
};

// AWS's managed policies for the services that this server has.
constexpr AwsPolicy aws_policies[] = {
    {"AdministratorAccess", "Everything.", R"("*")"},
    {"AmazonS3FullAccess", "Everything in S3.", R"("s3:*")"},
    {"AmazonS3ReadOnlyAccess", "Reading and listing in S3.", R"("s3:Get*","s3:List*","s3:Describe*")"},
    {"IAMFullAccess", "Everything in IAM.", R"("iam:*")"},
    {"IAMReadOnlyAccess", "Looking at users, groups, roles and policies.", R"("iam:Get*","iam:List*")"},
};

ByName<ManagedPolicy> make_aws_policies() {
  ByName<ManagedPolicy> made;
  for (const AwsPolicy& source : aws_policies) {
    ManagedPolicy policy;
    policy.name = source.name;
    policy.id = std::string("ANPAVERBENA") + source.name;
    policy.description = source.description;
    policy.created_s = 1'423'000'000;  // fixed, so that all servers report the same
    policy.document.text = std::string(R"({"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":[)") +
                           source.actions + R"(],"Resource":"*"}]})";
    if (auto parsed = parse_policy(policy.document.text, PolicyKind::identity)) policy.document.policy = *parsed;
    made.emplace(policy.name, std::move(policy));
  }
  return made;
}

// Null if there are none.
std::shared_ptr<const Attributes> attributes_of(const TagMap& tags) {
  if (tags.empty()) return nullptr;
  auto made = std::make_shared<Attributes>();
  made->tags = tags;
  return made;
}

}  // namespace

bool NameOrder::operator()(std::string_view a, std::string_view b) const {
  const auto small = [](char c) { return lower(c); };
  return std::ranges::lexicographical_compare(a, b, {}, small, small);
}

std::shared_ptr<const Attributes> joined(const std::shared_ptr<const Attributes>& of_role, const Attributes& own) {
  if (own.empty()) return of_role;
  auto made = std::make_shared<Attributes>(own);
  if (of_role != nullptr) made->tags.insert(of_role->tags.begin(), of_role->tags.end());
  return made;
}

std::string arn_of(std::string_view account_id, std::string_view kind, std::string_view path, std::string_view name) {
  std::string arn = "arn:aws:iam::";
  arn.append(account_id).append(":").append(kind).append(path).append(name);
  return arn;
}
std::string user_arn(const AccountEntry& account, const User& user) {
  return arn_of(account.account->id, "user", user.path, user.name);
}
std::string role_arn(const AccountEntry& account, const Role& role) {
  return arn_of(account.account->id, "role", role.path, role.name);
}
std::string policy_arn(const AccountEntry& account, const ManagedPolicy& policy) {
  return arn_of(account.account->id, "policy", policy.path, policy.name);
}

std::string provider_arn(const AccountEntry& account, const OpenIdProvider& provider) {
  return arn_of(account.account->id, "oidc-provider", "/", provider.url);
}

const OpenIdProvider* find_provider(const AccountEntry& account, std::string_view arn) {
  const std::string prefix = arn_of(account.account->id, "oidc-provider", "/", "");
  if (!arn.starts_with(prefix)) return nullptr;
  const auto found = account.open_id_providers.find(std::string(arn.substr(prefix.size())));
  return found == account.open_id_providers.end() ? nullptr : &found->second;
}

std::string provider_tag(const OpenIdProvider& provider) {
  return provider.id.empty() ? "made at " + std::to_string(provider.created_s) : provider.id;
}

const ByName<ManagedPolicy>& aws_managed_policies() {
  static const ByName<ManagedPolicy> policies = make_aws_policies();
  return policies;
}

const ManagedPolicy* find_policy(const AccountEntry& account, std::string_view arn) {
  const size_t slash = arn.rfind('/');
  if (slash == std::string_view::npos) return nullptr;
  const std::string_view name = arn.substr(slash + 1);
  const bool of_aws = arn.starts_with(aws_policy_prefix);
  const auto& policies = of_aws ? aws_managed_policies() : account.policies;
  const auto found = policies.find(name);
  if (found == policies.end()) return nullptr;
  const std::string whole =
      of_aws ? std::string(aws_policy_prefix) + found->second.name : policy_arn(account, found->second);
  return whole == arn ? &found->second : nullptr;
}

PrincipalPtr root_of(const AccountEntry& account) {
  if (account.account->id == root_account_id) return superuser();
  Principal root;
  root.account = account.account;
  root.account_limits = account.limits;
  root.arn = "arn:aws:iam::" + account.account->id + ":root";
  root.user_id = account.account->id;
  return std::make_shared<const Principal>(std::move(root));
}

PrincipalPtr principal_of(const AccountEntry& account, const User& user) {
  Principal made;
  made.kind = Principal::Kind::user;
  made.account = account.account;
  made.arn = user_arn(account, user);
  made.user_id = user.id;
  made.name = user.name;
  made.limits = user.limits;
  made.attributes = attributes_of(user.tags);
  made.account_limits = account.limits;
  add_policies(account, user.policy_set, made.policies);
  for (const auto& [name, group] : account.groups) {
    if (group.members.contains(user.name)) add_policies(account, group.policy_set, made.policies);
  }
  return std::make_shared<const Principal>(std::move(made));
}

Principal role_session(const AccountEntry& account, const Role& role, std::string_view session_name) {
  Principal made;
  made.kind = Principal::Kind::assumed_role;
  made.account = account.account;
  made.arn = "arn:aws:sts::" + account.account->id + ":assumed-role/" + role.name + "/" + std::string(session_name);
  made.user_id = role.id + ":" + std::string(session_name);
  made.name = session_name;
  made.account_limits = account.limits;
  made.attributes = attributes_of(role.tags);
  add_policies(account, role.policy_set, made.policies);
  return made;
}

}  // namespace verbena::auth
