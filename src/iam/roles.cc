// Roles.
#include "auth/identifiers.h"
#include "iam/actions.h"
#include "iam/subjects.h"

namespace verbena::iam {
namespace {

using auth::AccountEntry;
using auth::Role;

constexpr int64_t session_shortest_max_s = 3'600, session_longest_max_s = 43'200;

void write_role(s3::XmlWriter& xml, const AccountEntry& account, const Role& role) {
  xml.element("Path", role.path);
  xml.element("RoleName", role.name);
  xml.element("RoleId", role.id);
  xml.element("Arn", role_arn(account, role));
  write_date(xml, "CreateDate", role.created_s);
  xml.element("AssumeRolePolicyDocument", auth::uri_encode(role.trust.text, false));
  if (!role.description.empty()) xml.element("Description", role.description);
  xml.element("MaxSessionDuration", role.session_max_s);
}

Result<int64_t> session_max(const Call& call, int64_t fallback) {
  return call.number("MaxSessionDuration", session_shortest_max_s, session_longest_max_s, fallback);
}

}  // namespace

Result<void> create_role(Call& call) {
  Role role;
  VB_ASSIGN(role.name, call.name("RoleName", role_name_max));
  VB_ASSIGN(role.path, call.path());
  VB_ASSIGN(role.description, call.description());
  VB_ASSIGN(role.tags, authorize_new_tags(call, "iam:TagRole"));
  VB_ASSIGN(role.session_max_s, session_max(call, role.session_max_s));
  VB_ASSIGN(role.trust,
            call.document("AssumeRolePolicyDocument", auth::PolicyKind::trust, auth::trust_policy_bytes_max));
  role.id = auth::make_id("AROA");
  role.created_s = call.now_s();
  VB_TRY(call.change([&](AccountEntry& account) -> Result<void> {
    if (account.roles.contains(role.name)) return call.exists("Role", role.name);
    if (account.roles.size() >= auth::roles_max) return call.too_many("RolesPerAccount", auth::roles_max);
    account.roles.emplace(role.name, role);
    return {};
  }));
  call.xml.open("Role");
  write_role(call.xml, *call.account, role);
  write_tags(call.xml, role.tags);
  call.xml.close();
  return {};
}

Result<void> get_role(Call& call) {
  VB_ASSIGN(const Role* role, find_one(call, call.account->roles, "role", call.get("RoleName")));
  call.xml.open("Role");
  write_role(call.xml, *call.account, *role);
  write_tags(call.xml, role->tags);
  call.xml.close();
  return {};
}

Result<void> list_roles(Call& call) {
  const std::string_view prefix = call.get("PathPrefix");
  return write_page(
      call, "Roles", call.account->roles, [](const auto& item) -> const std::string& { return item.first; },
      [&](const auto& item) { return item.second.path.starts_with(prefix); },
      [&](const auto& item) {
        call.xml.open("member");
        write_role(call.xml, *call.account, item.second);
        call.xml.close();
      });
}

Result<void> update_role(Call& call) {
  VB_ASSIGN(const std::string description, call.description());
  VB_ASSIGN(const int64_t session_max_s, session_max(call, 0));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(Role * role, find_one(call, account.roles, "role", call.get("RoleName")));
    if (call.parameters.get("Description")) role->description = description;
    if (session_max_s != 0) role->session_max_s = session_max_s;
    return {};
  });
}

Result<void> update_role_description(Call& call) {
  VB_ASSIGN(const std::string description, call.description());
  Role shown;
  VB_TRY(call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(Role * role, find_one(call, account.roles, "role", call.get("RoleName")));
    role->description = description;
    shown = *role;
    return {};
  }));
  call.xml.open("Role");
  write_role(call.xml, *call.account, shown);
  call.xml.close();
  return {};
}

Result<void> update_assume_role_policy(Call& call) {
  VB_ASSIGN(const auth::PolicyDocument trust,
            call.document("PolicyDocument", auth::PolicyKind::trust, auth::trust_policy_bytes_max));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(Role * role, find_one(call, account.roles, "role", call.get("RoleName")));
    role->trust = trust;
    return {};
  });
}

Result<void> delete_role(Call& call) {
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(const Role* role, find_one(call, account.roles, "role", call.get("RoleName")));
    if (!role->policy_set.inline_policies.empty()) {
      return call.refuse(Errc::delete_conflict, "Cannot delete entity, must delete policies first.");
    }
    if (!role->policy_set.attached.empty()) {
      return call.refuse(Errc::delete_conflict, "Cannot delete entity, must detach all policies first.");
    }
    account.roles.erase(role->name);
    return {};
  });
}

}  // namespace verbena::iam
