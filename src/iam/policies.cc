// Policies of users, groups and roles: inline ones, and managed ones that are attached.
#include <algorithm>
#include <type_traits>

#include "iam/actions.h"
#include "iam/subjects.h"

namespace verbena::iam {

using auth::AccountEntry;
using auth::PolicySet;

namespace {

// `Account` may be const: what only reads copies nothing of an account, which may be large.
template <class Account>
using SubjectIn = SubjectWith<std::conditional_t<std::is_const_v<Account>, const PolicySet, PolicySet>>;

template <class Account>
Result<SubjectIn<Account>> find_in(const Call& call, Account& account) {
  const std::string_view name = call.target_name();
  if (name.empty()) return call.refuse(Errc::validation_error, "The request names no user, group or role.");
  if (call.action.target == Target::user) {
    VB_ASSIGN(auto* user, find_one(call, account.users, "user", name));
    return SubjectIn<Account>{&user->policy_set, auth::user_policies_bytes_max, "user", user->name};
  }
  if (call.action.target == Target::group) {
    VB_ASSIGN(auto* group, find_one(call, account.groups, "group", name));
    return SubjectIn<Account>{&group->policy_set, auth::group_policies_bytes_max, "group", group->name};
  }
  VB_ASSIGN(auto* role, find_one(call, account.roles, "role", name));
  return SubjectIn<Account>{&role->policy_set, auth::role_policies_bytes_max, "role", role->name};
}

// For calls that only read: on a snapshot.
Result<PolicySet> policies_now(const Call& call) {
  VB_ASSIGN(const auto subject, find_in(call, *call.account));
  return *subject.policy_set;
}

// "UserName", "GroupName", "RoleName".
std::string name_element(const Call& call) {
  return call.action.target == Target::user    ? "UserName"
         : call.action.target == Target::group ? "GroupName"
                                               : "RoleName";
}

std::unexpected<Error> missing_policy(const Call& call, std::string_view name) {
  return call.refuse(Errc::no_such_entity, "The policy with name " + std::string(name) + " cannot be found.");
}

}  // namespace

Result<Subject> find_subject(const Call& call, AccountEntry& account) { return find_in(call, account); }

Result<void> put_inline_policy(Call& call) {
  VB_ASSIGN(const std::string name, call.name("PolicyName", policy_name_max));
  VB_ASSIGN(const auth::PolicyDocument document,
            call.document("PolicyDocument", auth::PolicyKind::identity, auth::role_policies_bytes_max));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(const Subject subject, find_subject(call, account));
    size_t bytes = document.text.size();
    for (const auto& [other, kept] : subject.policy_set->inline_policies) {
      if (auth::NameOrder()(other, name) || auth::NameOrder()(name, other)) bytes += kept.text.size();
    }
    if (bytes > subject.inline_bytes_max) {
      return call.refuse(Errc::limit_exceeded, "Maximum policy size of " + std::to_string(subject.inline_bytes_max) +
                                                   " bytes exceeded for " + subject.kind + " " + subject.name);
    }
    subject.policy_set->inline_policies.insert_or_assign(name, document);
    return {};
  });
}

Result<void> get_inline_policy(Call& call) {
  VB_ASSIGN(const PolicySet policy_set, policies_now(call));
  const auto found = policy_set.inline_policies.find(call.get("PolicyName"));
  if (found == policy_set.inline_policies.end()) return missing_policy(call, call.get("PolicyName"));
  call.xml.element(name_element(call), call.target_name());
  call.xml.element("PolicyName", found->first);
  call.xml.element("PolicyDocument", auth::uri_encode(found->second.text, false));
  return {};
}

Result<void> list_inline_policies(Call& call) {
  VB_ASSIGN(const PolicySet policy_set, policies_now(call));
  return write_page(
      call, "PolicyNames", policy_set.inline_policies,
      [](const auto& item) -> const std::string& { return item.first; }, [](const auto&) { return true; },
      [&](const auto& item) { call.xml.element("member", item.first); });
}

Result<void> delete_inline_policy(Call& call) {
  VB_ASSIGN(const std::string name, call.name("PolicyName", policy_name_max));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(const Subject subject, find_subject(call, account));
    if (subject.policy_set->inline_policies.erase(name) == 0) return missing_policy(call, name);
    return {};
  });
}

Result<void> attach_policy(Call& call) {
  const std::string arn(call.get("PolicyArn"));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(const Subject subject, find_subject(call, account));
    if (find_policy(account, arn) == nullptr) {
      return call.refuse(Errc::no_such_entity, "Policy " + arn + " does not exist or is not attachable.");
    }
    if (!subject.policy_set->attached.contains(arn) && subject.policy_set->attached.size() >= auth::attached_max) {
      return call.too_many("PoliciesPer" + subject.kind, auth::attached_max);
    }
    subject.policy_set->attached.insert(arn);
    return {};
  });
}

Result<void> detach_policy(Call& call) {
  const std::string arn(call.get("PolicyArn"));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(const Subject subject, find_subject(call, account));
    if (subject.policy_set->attached.erase(arn) == 0) {
      return call.refuse(Errc::no_such_entity, "Policy " + arn + " was not found.");
    }
    return {};
  });
}

Result<void> list_attached_policies(Call& call) {
  VB_ASSIGN(const PolicySet policy_set, policies_now(call));
  const std::string_view prefix = call.get("PathPrefix");
  auth::ByName<std::string> by_name;
  for (const std::string& arn : policy_set.attached) {
    const auth::ManagedPolicy* policy = find_policy(*call.account, arn);
    if (policy != nullptr && policy->path.starts_with(prefix)) by_name.emplace(policy->name + " " + arn, arn);
  }
  return write_page(
      call, "AttachedPolicies", by_name, [](const auto& item) -> const std::string& { return item.first; },
      [](const auto&) { return true; },
      [&](const auto& item) {
        call.xml.open("member");
        call.xml.element("PolicyName", item.first.substr(0, item.first.find(' ')));
        call.xml.element("PolicyArn", item.second);
        call.xml.close();
      });
}

}  // namespace verbena::iam
