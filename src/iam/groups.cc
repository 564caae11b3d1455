// Groups and their members.
#include "iam/actions.h"
#include "iam/subjects.h"

#include <algorithm>

#include "auth/identifiers.h"
#include "iam/authorize.h"

namespace verbena::iam {

using auth::AccountEntry;
using auth::Group;
using auth::User;

void write_group(s3::XmlWriter& xml, const AccountEntry& account, const Group& group) {
  xml.element("Path", group.path);
  xml.element("GroupName", group.name);
  xml.element("GroupId", group.id);
  xml.element("Arn", auth::arn_of(account.account->id, "group", group.path, group.name));
  write_date(xml, "CreateDate", group.created_s);
}

Result<void> create_group(Call& call) {
  Group group;
  VB_ASSIGN(group.name, call.name("GroupName", group_name_max));
  VB_ASSIGN(group.path, call.path());
  group.id = auth::make_id("AGPA");
  group.created_s = call.now_s();
  VB_TRY(call.change([&](AccountEntry& account) -> Result<void> {
    if (account.groups.contains(group.name)) return call.exists("Group", group.name);
    if (account.groups.size() >= auth::groups_max) return call.too_many("GroupsPerAccount", auth::groups_max);
    account.groups.emplace(group.name, group);
    return {};
  }));
  call.xml.open("Group");
  write_group(call.xml, *call.account, group);
  call.xml.close();
  return {};
}

Result<void> get_group(Call& call) {
  VB_ASSIGN(const Group* group, find_one(call, call.account->groups, "group", call.get("GroupName")));
  call.xml.open("Group");
  write_group(call.xml, *call.account, *group);
  call.xml.close();
  const auto& users = call.account->users;
  return write_page(
      call, "Users", group->members, [](const std::string& name) -> const std::string& { return name; },
      [&](const std::string& name) { return users.contains(name); },
      [&](const std::string& name) {
        call.xml.open("member");
        write_user(call.xml, *call.account, users.find(name)->second);
        call.xml.close();
      });
}

Result<void> list_groups(Call& call) {
  const std::string_view prefix = call.get("PathPrefix");
  return write_page(
      call, "Groups", call.account->groups, [](const auto& item) -> const std::string& { return item.first; },
      [&](const auto& item) { return item.second.path.starts_with(prefix); },
      [&](const auto& item) {
        call.xml.open("member");
        write_group(call.xml, *call.account, item.second);
        call.xml.close();
      });
}

Result<void> update_group(Call& call) {
  const auto path = call.parameters.get("NewPath");
  if (path && !is_path(*path)) return call.refuse(Errc::validation_error, "NewPath must begin and end with a slash.");
  std::string new_name;
  if (call.parameters.get("NewGroupName")) {
    VB_ASSIGN(new_name, call.name("NewGroupName", group_name_max));
  }
  VB_ASSIGN(const Group* before, find_one(call, call.account->groups, "group", call.get("GroupName")));
  // The caller needs the right for the new name, too: otherwise renaming would bypass a policy that restricts names.
  const auth::Account& own = *call.account->account;
  const std::string arn =
      auth::arn_of(own.id, "group", path.value_or(before->path), new_name.empty() ? before->name : new_name);
  VB_TRY(authorize(call, "iam:UpdateGroup", arn, own));
  return call.change([&](AccountEntry& account) -> Result<void> {
    const auto found = account.groups.find(call.get("GroupName"));
    if (found == account.groups.end()) return call.missing("group", call.get("GroupName"));
    if (path) found->second.path = *path;
    if (new_name.empty()) return {};
    const auto taken = account.groups.find(new_name);
    if (taken != account.groups.end() && taken != found) return call.exists("Group", new_name);
    auto node = account.groups.extract(found);
    node.key() = node.mapped().name = new_name;
    account.groups.insert(std::move(node));
    return {};
  });
}

Result<void> delete_group(Call& call) {
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(const Group* group, find_one(call, account.groups, "group", call.get("GroupName")));
    if (!group->members.empty()) {
      return call.refuse(Errc::delete_conflict, "Cannot delete entity, must remove users from group first.");
    }
    if (!group->policy_set.inline_policies.empty() || !group->policy_set.attached.empty()) {
      return call.refuse(Errc::delete_conflict, "Cannot delete entity, must delete or detach its policies first.");
    }
    account.groups.erase(group->name);
    return {};
  });
}

Result<void> add_user_to_group(Call& call) {
  VB_ASSIGN(const std::string name, call.name("UserName", user_name_max));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(Group * group, find_one(call, account.groups, "group", call.get("GroupName")));
    VB_ASSIGN(const User* user, find_one(call, account.users, "user", name));
    const auto in = std::ranges::count_if(account.groups,
                                          [&](const auto& item) { return item.second.members.contains(user->name); });
    if (!group->members.contains(user->name) && static_cast<size_t>(in) >= auth::groups_per_user_max) {
      return call.too_many("GroupsPerUser", auth::groups_per_user_max);
    }
    group->members.insert(user->name);
    return {};
  });
}

Result<void> remove_user_from_group(Call& call) {
  VB_ASSIGN(const std::string name, call.name("UserName", user_name_max));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(Group * group, find_one(call, account.groups, "group", call.get("GroupName")));
    if (group->members.erase(name) == 0) return call.missing("user", name);
    return {};
  });
}

Result<void> list_groups_for_user(Call& call) {
  VB_ASSIGN(const User* user, find_one(call, call.account->users, "user", call.get("UserName")));
  return write_page(
      call, "Groups", call.account->groups, [](const auto& item) -> const std::string& { return item.first; },
      [&](const auto& item) { return item.second.members.contains(user->name); },
      [&](const auto& item) {
        call.xml.open("member");
        write_group(call.xml, *call.account, item.second);
        call.xml.close();
      });
}

}  // namespace verbena::iam
