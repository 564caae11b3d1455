// The principal of an access key. Immutable and shared: a change of a user, its keys or its policies makes a new one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/limits.h"
#include "auth/policy.h"

namespace verbena::auth {

// An account owns its buckets and objects. The server's root account is called "root".
struct Account {
  std::string id;            // 12 digits, as in ARNs
  std::string canonical_id;  // the id in BucketInfo::owner, <Owner><ID> and grants
  std::string display_name;
  std::string email;  // lower case; empty for none; unique
};
using AccountPtr = std::shared_ptr<const Account>;

struct Attributes;

struct Principal {
  // `federated` is a caller authenticated by an identity provider that is about to assume a role: it signs nothing.
  enum class Kind : uint8_t { account_root, user, assumed_role, federated };
  Kind kind = Kind::account_root;
  AccountPtr account;
  bool superuser = false;  // the server's own root key: may do everything, manages accounts
  // "arn:aws:iam::123456789012:user/path/name", "...:root", "arn:aws:sts::...:assumed-role/..."
  std::string arn;
  std::string user_id;                      // unique id ("AIDA...", an account's id for its root, "AROA...:session")
  std::string name;                         // user name; empty for an account's root
  std::vector<PolicyPtr> policies;          // identity policies: inline, attached, of groups; of the role
  std::vector<PolicyPtr> session;           // session policies: what none of them allows is denied. Empty: no limit
  std::optional<int64_t> token_issued_s{};  // of a session: when its credentials were made, since the epoch
  LimitsPtr limits{}, account_limits{};     // of a user; of its account. Null: none
  std::shared_ptr<const Attributes> attributes{};  // its tags and more (attributes.h). Null: none
};
using PrincipalPtr = std::shared_ptr<const Principal>;

// Accounts by their names, for owners and grantees. Thread-safe.
class AccountDirectory {
 public:
  virtual ~AccountDirectory() = default;
  // nullptr when there is none.
  virtual AccountPtr by_canonical_id(std::string_view canonical_id) const = 0;
  virtual AccountPtr by_email(std::string_view email) const = 0;
  virtual AccountPtr by_id(std::string_view account_id) const = 0;
  // The account's limits of storage; null: none.
  virtual LimitsPtr limits_of(std::string_view /*canonical_id*/) const { return nullptr; }
};

}  // namespace verbena::auth
