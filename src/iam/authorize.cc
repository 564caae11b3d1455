#include "iam/authorize.h"

#include "call/request_facts.h"
#include "iam/subjects.h"

namespace verbena::iam {
namespace {

constexpr std::string_view request_tag = "aws:requesttag/", tag_keys = "aws:tagkeys";

// The ARN has the item's own path; for an item that the call will create, the path in the call.
template <class T>
std::string arn_in(const Call& call, const auth::ByName<T>& items, std::string_view kind, std::string_view name) {
  const auto found = items.find(name);
  if (found != items.end())
    return auth::arn_of(call.account->account->id, kind, found->second.path, found->second.name);
  return auth::arn_of(call.account->account->id, kind, call.parameters.get("Path").value_or("/"), name);
}

// Tags that the call sets or removes, and those of its item. Without them a statement that denies by a tag would not
// match.
bool find_tag_fact(const Call& call, std::string_view key, auth::FactValues& values) {
  const auto tag_of = [&](std::string_view prefix, const auth::TagMap& tags) {
    if (!key.starts_with(prefix)) return false;
    const auto found = tags.find(key.substr(prefix.size()));
    if (found != tags.end()) values.push_back(found->second);
    return found != tags.end();
  };
  if (tag_of(request_tag, call.tags)) return true;
  if (key == tag_keys) {
    for (const auto& [name, value] : call.tags) values.push_back(name);
    values.insert(values.end(), call.untagged.begin(), call.untagged.end());
    return !values.empty();
  }
  return call.item_tags != nullptr &&
         (tag_of("aws:resourcetag/", *call.item_tags) || tag_of("iam:resourcetag/", *call.item_tags));
}

}  // namespace

bool CallerFacts::find(std::string_view key, auth::FactValues& values) const {
  auto value = call::find_request_fact(
      caller_, {.region = around_.region, .resource_account = resource_account_, .clock = around_.clock}, key);
  if (!value) return false;
  values.push_back(std::move(*value));
  return true;
}

bool CallFacts::find(std::string_view key, auth::FactValues& values) const {
  const auto parameter = [&](std::string_view name) {
    const auto value = call_.parameters.get(name);
    if (value) values.emplace_back(*value);
    return value.has_value();
  };
  if (call_.passed_on != nullptr && find_attribute_fact(*call_.passed_on, key, values)) return true;
  if (find_tag_fact(call_, key, values)) return true;
  if (key == "iam:policyarn") return parameter("PolicyArn");
  if (key == "sts:rolesessionname") return parameter("RoleSessionName");
  if (key == "sts:externalid") return parameter("ExternalId");
  return of_caller_.find(key, values);
}

bool find_attribute_fact(const auth::Attributes& attributes, std::string_view key, auth::FactValues& values) {
  if (key.starts_with(request_tag)) {
    const auto tag = attributes.tags.find(key.substr(request_tag.size()));
    if (tag != attributes.tags.end()) values.push_back(tag->second);
    return tag != attributes.tags.end();
  }
  if (key == tag_keys) {
    for (const auto& [name, value] : attributes.tags) values.push_back(name);
  } else if (key == "sts:transitivetagkeys") {
    values = attributes.transitive;
  } else if (key == "sts:sourceidentity" && !attributes.source_identity.empty()) {
    values.push_back(attributes.source_identity);
  }
  return !values.empty();
}

std::string resource_of(const Call& call) {
  const auth::AccountEntry& account = *call.account;
  switch (call.action.target) {
    case Target::none:
      return "*";
    case Target::own_user:
      if (!call.parameters.get("UserName")) return call.principal().arn;
      [[fallthrough]];
    case Target::user:
      return arn_in(call, account.users, "user", call.get("UserName"));
    case Target::group:
      return arn_in(call, account.groups, "group", call.get("GroupName"));
    case Target::role:
      return arn_in(call, account.roles, "role", call.get("RoleName"));
    case Target::policy:
      return std::string(call.get("PolicyArn"));
    case Target::new_policy:
      return arn_in(call, account.policies, "policy", call.get("PolicyName"));
    case Target::open_id_provider:
      return provider_arn(call);
  }
  return "*";
}

Result<void> authorize(const Call& call, std::string_view action, const std::string& resource,
                       const auth::Account& owner, const auth::Policy* policy) {
  const CallFacts facts(call, owner.id);
  const auth::Question question{&call.principal(), action, resource, &facts};
  if (decide(question, {.policy = policy, .owner = owner.canonical_id}) == auth::Decision::allowed) return {};
  return call.refuse(Errc::access_denied, "User: " + call.principal().arn + " is not authorized to perform: " +
                                              std::string(action) + " on resource: " + resource);
}

Result<void> authorize_iam(const Call& call) {
  const auth::Principal& caller = call.principal();
  // Otherwise temporary credentials of a user could create permanent ones.
  if (call.key.expires_s != 0 && caller.kind != auth::Principal::Kind::assumed_role) {
    return call.refuse(Errc::access_denied, "Temporary credentials of a user or an account's root cannot call IAM.");
  }
  return authorize(call, "iam:" + std::string(call.action.name), resource_of(call), *call.account->account);
}

}  // namespace verbena::iam
