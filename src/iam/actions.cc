#include "iam/actions.h"

#include <algorithm>
#include <array>

namespace verbena::iam {
namespace {

constexpr std::array iam_actions = {
    Action{"CreateUser", Target::user, " UserName Path Tags.*.Key|Value ", create_user},
    Action{"GetUser", Target::own_user, " UserName ", get_user},
    Action{"ListUsers", Target::none, " PathPrefix Marker MaxItems ", list_users},
    Action{"UpdateUser", Target::user, " UserName NewUserName NewPath ", update_user},
    Action{"DeleteUser", Target::user, " UserName ", delete_user},
    Action{"TagUser", Target::user, " UserName Tags.*.Key|Value ", tag_subject},
    Action{"UntagUser", Target::user, " UserName TagKeys.* ", untag_subject},
    Action{"ListUserTags", Target::user, " UserName Marker MaxItems ", list_tags},

    Action{"CreateAccessKey", Target::own_user, " UserName ", create_access_key},
    Action{"ListAccessKeys", Target::own_user, " UserName Marker MaxItems ", list_access_keys},
    Action{"UpdateAccessKey", Target::own_user, " UserName AccessKeyId Status ", update_access_key},
    Action{"DeleteAccessKey", Target::own_user, " UserName AccessKeyId ", delete_access_key},

    Action{"PutUserPolicy", Target::user, " UserName PolicyName PolicyDocument ", put_inline_policy},
    Action{"GetUserPolicy", Target::user, " UserName PolicyName ", get_inline_policy},
    Action{"ListUserPolicies", Target::user, " UserName Marker MaxItems ", list_inline_policies},
    Action{"DeleteUserPolicy", Target::user, " UserName PolicyName ", delete_inline_policy},
    Action{"AttachUserPolicy", Target::user, " UserName PolicyArn ", attach_policy},
    Action{"DetachUserPolicy", Target::user, " UserName PolicyArn ", detach_policy},
    Action{"ListAttachedUserPolicies", Target::user, " UserName PathPrefix Marker MaxItems ", list_attached_policies},

    Action{"CreateGroup", Target::group, " GroupName Path ", create_group},
    Action{"GetGroup", Target::group, " GroupName Marker MaxItems ", get_group},
    Action{"ListGroups", Target::none, " PathPrefix Marker MaxItems ", list_groups},
    Action{"UpdateGroup", Target::group, " GroupName NewGroupName NewPath ", update_group},
    Action{"DeleteGroup", Target::group, " GroupName ", delete_group},
    Action{"AddUserToGroup", Target::group, " GroupName UserName ", add_user_to_group},
    Action{"RemoveUserFromGroup", Target::group, " GroupName UserName ", remove_user_from_group},
    Action{"ListGroupsForUser", Target::user, " UserName Marker MaxItems ", list_groups_for_user},
    Action{"PutGroupPolicy", Target::group, " GroupName PolicyName PolicyDocument ", put_inline_policy},
    Action{"GetGroupPolicy", Target::group, " GroupName PolicyName ", get_inline_policy},
    Action{"ListGroupPolicies", Target::group, " GroupName Marker MaxItems ", list_inline_policies},
    Action{"DeleteGroupPolicy", Target::group, " GroupName PolicyName ", delete_inline_policy},
    Action{"AttachGroupPolicy", Target::group, " GroupName PolicyArn ", attach_policy},
    Action{"DetachGroupPolicy", Target::group, " GroupName PolicyArn ", detach_policy},
    Action{"ListAttachedGroupPolicies", Target::group, " GroupName PathPrefix Marker MaxItems ",
           list_attached_policies},

    Action{"CreatePolicy", Target::new_policy, " PolicyName Path PolicyDocument Description Tags.*.Key|Value ",
           create_policy},
    Action{"GetPolicy", Target::policy, " PolicyArn ", get_policy},
    Action{"GetPolicyVersion", Target::policy, " PolicyArn VersionId ", get_policy_version},
    Action{"ListPolicyVersions", Target::policy, " PolicyArn Marker MaxItems ", list_policy_versions},
    Action{"ListPolicies", Target::none, " Scope OnlyAttached PathPrefix Marker MaxItems ", list_policies},
    Action{"DeletePolicy", Target::policy, " PolicyArn ", delete_policy},
    Action{"CreatePolicyVersion", Target::policy, " PolicyArn PolicyDocument SetAsDefault ", create_policy_version},
    Action{"SetDefaultPolicyVersion", Target::policy, " PolicyArn VersionId ", set_default_policy_version},
    Action{"DeletePolicyVersion", Target::policy, " PolicyArn VersionId ", delete_policy_version},

    Action{"TagPolicy", Target::policy, " PolicyArn Tags.*.Key|Value ", tag_subject},
    Action{"UntagPolicy", Target::policy, " PolicyArn TagKeys.* ", untag_subject},
    Action{"ListPolicyTags", Target::policy, " PolicyArn Marker MaxItems ", list_tags},

    Action{"CreateRole", Target::role,
           " RoleName Path AssumeRolePolicyDocument Description MaxSessionDuration Tags.*.Key|Value ", create_role},
    Action{"GetRole", Target::role, " RoleName ", get_role},
    Action{"ListRoles", Target::none, " PathPrefix Marker MaxItems ", list_roles},
    Action{"UpdateRole", Target::role, " RoleName Description MaxSessionDuration ", update_role},
    Action{"UpdateRoleDescription", Target::role, " RoleName Description ", update_role_description},
    Action{"UpdateAssumeRolePolicy", Target::role, " RoleName PolicyDocument ", update_assume_role_policy},
    Action{"DeleteRole", Target::role, " RoleName ", delete_role},
    Action{"TagRole", Target::role, " RoleName Tags.*.Key|Value ", tag_subject},
    Action{"UntagRole", Target::role, " RoleName TagKeys.* ", untag_subject},
    Action{"ListRoleTags", Target::role, " RoleName Marker MaxItems ", list_tags},
    Action{"PutRolePolicy", Target::role, " RoleName PolicyName PolicyDocument ", put_inline_policy},
    Action{"GetRolePolicy", Target::role, " RoleName PolicyName ", get_inline_policy},
    Action{"ListRolePolicies", Target::role, " RoleName Marker MaxItems ", list_inline_policies},
    Action{"DeleteRolePolicy", Target::role, " RoleName PolicyName ", delete_inline_policy},
    Action{"AttachRolePolicy", Target::role, " RoleName PolicyArn ", attach_policy},
    Action{"DetachRolePolicy", Target::role, " RoleName PolicyArn ", detach_policy},
    Action{"ListAttachedRolePolicies", Target::role, " RoleName PathPrefix Marker MaxItems ", list_attached_policies},

    Action{"CreateOpenIDConnectProvider", Target::open_id_provider,
           " Url ClientIDList.* ThumbprintList.* Tags.*.Key|Value ", create_open_id_provider},
    Action{"GetOpenIDConnectProvider", Target::open_id_provider, " OpenIDConnectProviderArn ", get_open_id_provider},
    Action{"ListOpenIDConnectProviders", Target::none, " ", list_open_id_providers},
    Action{"DeleteOpenIDConnectProvider", Target::open_id_provider, " OpenIDConnectProviderArn ",
           delete_open_id_provider},
    Action{"AddClientIDToOpenIDConnectProvider", Target::open_id_provider, " OpenIDConnectProviderArn ClientID ",
           add_client_id},
    Action{"RemoveClientIDFromOpenIDConnectProvider", Target::open_id_provider, " OpenIDConnectProviderArn ClientID ",
           remove_client_id},
    Action{"UpdateOpenIDConnectProviderThumbprint", Target::open_id_provider,
           " OpenIDConnectProviderArn ThumbprintList.* ", update_thumbprints},

    Action{"TagOpenIDConnectProvider", Target::open_id_provider, " OpenIDConnectProviderArn Tags.*.Key|Value ",
           tag_subject},
    Action{"UntagOpenIDConnectProvider", Target::open_id_provider, " OpenIDConnectProviderArn TagKeys.* ",
           untag_subject},
    Action{"ListOpenIDConnectProviderTags", Target::open_id_provider, " OpenIDConnectProviderArn Marker MaxItems ",
           list_tags},

    Action{"ListInstanceProfilesForRole", Target::role, " RoleName Marker MaxItems ", list_none},
    Action{"ListMFADevices", Target::own_user, " UserName Marker MaxItems ", list_none},
    Action{"ListVirtualMFADevices", Target::none, " AssignmentStatus Marker MaxItems ", list_none},
    Action{"ListSSHPublicKeys", Target::own_user, " UserName Marker MaxItems ", list_none},
    Action{"ListSigningCertificates", Target::own_user, " UserName Marker MaxItems ", list_none},
    Action{"ListServiceSpecificCredentials", Target::own_user, " UserName ServiceName Marker MaxItems ", list_none},
    Action{"GetLoginProfile", Target::own_user, " UserName ", no_login_profile},
    Action{"DeleteLoginProfile", Target::own_user, " UserName ", no_login_profile},

    Action{"GetAccountSummary", Target::none, " ", get_account_summary},
};

constexpr std::array sts_actions = {
    Action{"AssumeRole", Target::none, " RoleArn RoleSessionName DurationSeconds Policy PolicyArns.*.arn ExternalId ",
           assume_role},
    Action{"GetSessionToken", Target::none, " DurationSeconds ", get_session_token},
    Action{"GetCallerIdentity", Target::none, " ", get_caller_identity},
};

const Action* find(const auto& actions, std::string_view name) {
  const auto found = std::ranges::find(actions, name, &Action::name);
  return found == actions.end() ? nullptr : &*found;
}

}  // namespace

const Action* find_iam_action(std::string_view name) { return find(iam_actions, name); }
const Action* find_sts_action(std::string_view name) { return find(sts_actions, name); }

}  // namespace verbena::iam
