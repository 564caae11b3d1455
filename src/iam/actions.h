// The supported calls.
#pragma once

#include <string_view>

#include "iam/call.h"

namespace verbena::iam {

// nullptr: no such call of that API.
const Action* find_iam_action(std::string_view name);
const Action* find_sts_action(std::string_view name);

Result<void> create_user(Call& call);
Result<void> get_user(Call& call);
Result<void> list_users(Call& call);
Result<void> update_user(Call& call);
Result<void> delete_user(Call& call);

Result<void> create_access_key(Call& call);
Result<void> list_access_keys(Call& call);
Result<void> update_access_key(Call& call);
Result<void> delete_access_key(Call& call);

Result<void> create_group(Call& call);
Result<void> get_group(Call& call);
Result<void> list_groups(Call& call);
Result<void> update_group(Call& call);
Result<void> delete_group(Call& call);
Result<void> add_user_to_group(Call& call);
Result<void> remove_user_from_group(Call& call);
Result<void> list_groups_for_user(Call& call);

// For users, groups and roles alike: by the action's target.
Result<void> put_inline_policy(Call& call);
Result<void> get_inline_policy(Call& call);
Result<void> list_inline_policies(Call& call);
Result<void> delete_inline_policy(Call& call);
Result<void> attach_policy(Call& call);
Result<void> detach_policy(Call& call);
Result<void> list_attached_policies(Call& call);

Result<void> create_policy(Call& call);
Result<void> get_policy(Call& call);
Result<void> get_policy_version(Call& call);
Result<void> list_policy_versions(Call& call);
Result<void> list_policies(Call& call);
Result<void> delete_policy(Call& call);
Result<void> create_policy_version(Call& call);
Result<void> set_default_policy_version(Call& call);
Result<void> delete_policy_version(Call& call);

Result<void> create_role(Call& call);
Result<void> get_role(Call& call);
Result<void> list_roles(Call& call);
Result<void> update_role(Call& call);
Result<void> update_role_description(Call& call);
Result<void> update_assume_role_policy(Call& call);
Result<void> delete_role(Call& call);

// For users, roles, policies and providers alike.
Result<void> tag_subject(Call& call);
Result<void> untag_subject(Call& call);
Result<void> list_tags(Call& call);

Result<void> create_open_id_provider(Call& call);
Result<void> get_open_id_provider(Call& call);
Result<void> list_open_id_providers(Call& call);
Result<void> delete_open_id_provider(Call& call);
Result<void> add_client_id(Call& call);
Result<void> remove_client_id(Call& call);
Result<void> update_thumbprints(Call& call);

Result<void> list_none(Call& call);
Result<void> no_login_profile(Call& call);

Result<void> get_account_summary(Call& call);

Result<void> assume_role(Call& call);
Result<void> get_session_token(Call& call);
Result<void> get_caller_identity(Call& call);

}  // namespace verbena::iam
