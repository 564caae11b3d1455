// Properties that AWS stores for users and roles, and that do not exist here. Tools ask for them before they delete the
// user or role, and get empty lists.
#include <algorithm>
#include <array>

#include "iam/actions.h"
#include "iam/subjects.h"

namespace verbena::iam {
namespace {

struct AbsentList {
  std::string_view action, element;
};
constexpr std::array absent_lists = {
    AbsentList{"ListInstanceProfilesForRole", "InstanceProfiles"},
    AbsentList{"ListMFADevices", "MFADevices"},
    AbsentList{"ListVirtualMFADevices", "VirtualMFADevices"},
    AbsentList{"ListSSHPublicKeys", "SSHPublicKeys"},
    AbsentList{"ListSigningCertificates", "Certificates"},
    AbsentList{"ListServiceSpecificCredentials", "ServiceSpecificCredentials"},
};

// An unknown user or role is an error, not an empty list.
Result<void> check_owner(const Call& call) {
  if (call.action.target == Target::role) {
    VB_TRY(find_one(call, call.account->roles, "role", call.get("RoleName")));
  }
  if (call.action.target == Target::own_user && call.parameters.get("UserName")) {
    VB_TRY(find_one(call, call.account->users, "user", call.get("UserName")));
  }
  return {};
}

}  // namespace

Result<void> list_none(Call& call) {
  VB_TRY(check_owner(call));
  const auto found = std::ranges::find(absent_lists, call.action.name, &AbsentList::action);
  if (found == absent_lists.end()) return fail(Errc::internal, "iam: a list that is not known");
  call.xml.open(found->element);
  call.xml.close();
  call.xml.element("IsTruncated", false);
  return {};
}

Result<void> no_login_profile(Call& call) {
  VB_TRY(check_owner(call));
  return call.missing("login profile of the user", call.get("UserName"));
}

}  // namespace verbena::iam
