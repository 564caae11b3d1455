// The superuser, and a credential store with this key only.
#include "auth/auth.h"
#include "base/bytes.h"

namespace verbena::auth {

const AccountPtr& root_account() {
  static const AccountPtr account = [] {
    Account root{std::string(root_account_id), std::string(root_canonical_id), "root", ""};
    return std::make_shared<const Account>(std::move(root));
  }();
  return account;
}

const PrincipalPtr& superuser() {
  static const PrincipalPtr principal = [] {
    Principal root;
    root.account = root_account();
    root.superuser = true;
    root.arn = "arn:aws:iam::" + root.account->id + ":root";
    root.user_id = root.account->id;
    return std::make_shared<const Principal>(std::move(root));
  }();
  return principal;
}

bool is_unlimited_root(const Principal* principal, const AccessKey* key) {
  const bool limited = (principal != nullptr && !principal->session.empty()) || (key != nullptr && key->limits);
  return principal != nullptr && principal->superuser && !limited;
}

RootCredentials::RootCredentials(Credentials root)
    : root_(std::make_shared<const AccessKey>(AccessKey{std::move(root), superuser(), 0})) {}

Result<AccessKeyPtr> RootCredentials::find(std::string_view access_key, std::string_view session_token, int64_t) const {
  const Credentials& root = root_->credentials;
  if (access_key != root.access_key) return fail(Errc::invalid_access_key_id, "auth: unknown access key");
  if (!equal_constant_time(as_bytes(session_token), as_bytes(root.session_token))) {
    return fail(Errc::invalid_token, "The session token does not belong to this access key.");
  }
  return root_;
}

}  // namespace verbena::auth
