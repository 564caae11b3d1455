// Users.
#include "iam/actions.h"
#include "iam/subjects.h"

#include "auth/identifiers.h"
#include "iam/authorize.h"

namespace verbena::iam {

using auth::AccountEntry;
using auth::User;

Result<std::string> target_user(const Call& call) {
  if (call.parameters.get("UserName")) return call.name("UserName", user_name_max);
  const auth::Principal& caller = call.principal();
  if (caller.kind == auth::Principal::Kind::assumed_role) {
    return call.refuse(Errc::validation_error, "Must specify userName when calling with non-User credentials");
  }
  return caller.name;
}

void write_user(s3::XmlWriter& xml, const AccountEntry& account, const User& user) {
  xml.element("Path", user.path);
  xml.element("UserName", user.name);
  xml.element("UserId", user.id);
  xml.element("Arn", user_arn(account, user));
  write_date(xml, "CreateDate", user.created_s);
}

Result<void> create_user(Call& call) {
  User user;
  VB_ASSIGN(user.name, call.name("UserName", user_name_max));
  VB_ASSIGN(user.path, call.path());
  VB_ASSIGN(user.tags, authorize_new_tags(call, "iam:TagUser"));
  user.id = auth::make_id("AIDA");
  user.created_s = call.now_s();
  VB_TRY(call.change([&](AccountEntry& account) -> Result<void> {
    if (account.users.contains(user.name)) return call.exists("User", user.name);
    if (account.users.size() >= auth::users_max) return call.too_many("UsersPerAccount", auth::users_max);
    account.users.emplace(user.name, user);
    return {};
  }));
  call.xml.open("User");
  write_user(call.xml, *call.account, user);
  write_tags(call.xml, user.tags);
  call.xml.close();
  return {};
}

Result<void> get_user(Call& call) {
  VB_ASSIGN(const std::string name, target_user(call));
  if (name.empty()) {
    call.xml.open("User");
    call.xml.element("UserId", call.account->account->id);
    call.xml.element("Arn", root_of(*call.account)->arn);
    write_date(call.xml, "CreateDate", call.account->created_s);
    call.xml.close();
    return {};
  }
  VB_ASSIGN(const User* user, find_one(call, call.account->users, "user", name));
  call.xml.open("User");
  write_user(call.xml, *call.account, *user);
  write_tags(call.xml, user->tags);
  call.xml.close();
  return {};
}

Result<void> list_users(Call& call) {
  const std::string_view prefix = call.get("PathPrefix");
  return write_page(
      call, "Users", call.account->users, [](const auto& item) -> const std::string& { return item.first; },
      [&](const auto& item) { return item.second.path.starts_with(prefix); },
      [&](const auto& item) {
        call.xml.open("member");
        write_user(call.xml, *call.account, item.second);
        call.xml.close();
      });
}

Result<void> update_user(Call& call) {
  VB_ASSIGN(const std::string name, call.name("UserName", user_name_max));
  const auto path = call.parameters.get("NewPath");
  if (path && !is_path(*path)) {
    return call.refuse(Errc::validation_error, "NewPath must begin and end with a slash.");
  }
  std::string new_name;
  if (call.parameters.get("NewUserName")) {
    VB_ASSIGN(new_name, call.name("NewUserName", user_name_max));
  }
  VB_ASSIGN(const User* before, find_one(call, call.account->users, "user", name));
  // The caller needs the right for the new name, too: otherwise renaming would bypass a policy that restricts names.
  const auth::Account& own = *call.account->account;
  VB_TRY(authorize(
      call, "iam:UpdateUser",
      auth::arn_of(own.id, "user", path.value_or(before->path), new_name.empty() ? before->name : new_name), own));
  return call.change([&](AccountEntry& account) -> Result<void> {
    const auto found = account.users.find(name);
    if (found == account.users.end()) return call.missing("user", name);
    if (path) found->second.path = *path;
    if (new_name.empty()) return {};
    const auto taken = account.users.find(new_name);
    if (taken != account.users.end() && taken != found) return call.exists("User", new_name);
    auto node = account.users.extract(found);
    for (auto& [group_name, group] : account.groups) {
      if (group.members.erase(node.mapped().name) != 0) group.members.insert(new_name);
    }
    node.key() = node.mapped().name = new_name;
    account.users.insert(std::move(node));
    return {};
  });
}

Result<void> delete_user(Call& call) {
  VB_ASSIGN(const std::string name, call.name("UserName", user_name_max));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(const User* user, find_one(call, account.users, "user", name));
    if (!user->keys.empty())
      return call.refuse(Errc::delete_conflict, "Cannot delete entity, must delete access keys first.");
    if (!user->policy_set.inline_policies.empty()) {
      return call.refuse(Errc::delete_conflict, "Cannot delete entity, must delete policies first.");
    }
    if (!user->policy_set.attached.empty()) {
      return call.refuse(Errc::delete_conflict, "Cannot delete entity, must detach all policies first.");
    }
    for (const auto& [group_name, group] : account.groups) {
      if (group.members.contains(name)) {
        return call.refuse(Errc::delete_conflict, "Cannot delete entity, must remove users from group first.");
      }
    }
    account.users.erase(user->name);
    return {};
  });
}

Result<void> get_account_summary(Call& call) {
  const AccountEntry& account = *call.account;
  const std::pair<const char*, size_t> entries[] = {{"Users", account.users.size()},
                                                    {"UsersQuota", auth::users_max},
                                                    {"Groups", account.groups.size()},
                                                    {"GroupsQuota", auth::groups_max},
                                                    {"Roles", account.roles.size()},
                                                    {"RolesQuota", auth::roles_max},
                                                    {"Policies", account.policies.size()},
                                                    {"PoliciesQuota", auth::managed_policies_max},
                                                    {"VersionsPerPolicyQuota", auth::policy_versions_max},
                                                    {"Providers", account.open_id_providers.size()},
                                                    {"AccessKeysPerUserQuota", auth::keys_per_user_max},
                                                    {"GroupsPerUserQuota", auth::groups_per_user_max},
                                                    {"AttachedPoliciesPerUserQuota", auth::attached_max},
                                                    {"UserPolicySizeQuota", auth::user_policies_bytes_max},
                                                    {"GroupPolicySizeQuota", auth::group_policies_bytes_max},
                                                    {"PolicySizeQuota", auth::managed_policy_bytes_max},
                                                    {"AccountAccessKeysPresent", account.keys.size()}};
  call.xml.open("SummaryMap");
  for (const auto& [key, value] : entries) {
    call.xml.open("entry");
    call.xml.element("key", key);
    call.xml.element("value", value);
    call.xml.close();
  }
  call.xml.close();
  return {};
}

}  // namespace verbena::iam
