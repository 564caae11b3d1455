// Accounts and their contents: users, groups, roles, managed policies, keys. Plain values: the store (identity_store.h)
// makes immutable snapshots of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "auth/attributes.h"
#include "auth/auth.h"
#include "auth/policy.h"
#include "base/bytes.h"
#include "base/result.h"

namespace verbena::auth {

template <class T>
using ByName = std::map<std::string, T, NameOrder>;

// Tags: keys preserve their case and compare without it.
using TagMap = ByName<std::string>;

struct PolicyDocument {
  std::string text;  // unchanged
  PolicyPtr policy;
};

struct StoredKey {
  std::string access_key, secret_key;
  std::string sealed;  // the secret as stored on disk, base64
  bool active = true;
  int64_t created_s = 0;
};

// The permissions of a user, group or role.
struct PolicySet {
  ByName<PolicyDocument> inline_policies;
  std::set<std::string> attached;  // ARNs of managed policies
};

struct User {
  std::string name, path = "/", id;
  int64_t created_s = 0;
  std::vector<StoredKey> keys;
  PolicySet policy_set;
  TagMap tags;
  LimitsPtr limits;  // null: none
};

struct Group {
  std::string name, path = "/", id;
  int64_t created_s = 0;
  PolicySet policy_set;
  std::set<std::string, NameOrder> members;
};

struct Role {
  std::string name, path = "/", id, description;
  int64_t created_s = 0;
  int64_t session_max_s = 3600;
  PolicyDocument trust;
  PolicySet policy_set;
  TagMap tags;
};

struct PolicyVersion {
  PolicyDocument document;
  int64_t created_s = 0;
};

struct ManagedPolicy {
  std::string name, path = "/", id, description;
  int64_t created_s = 0;
  PolicyDocument document;  // of the default version, the effective one
  int version = 1;          // its number
  int64_t version_created_s = 0;
  std::map<int, PolicyVersion> others;  // the other versions, by number
  int versions_made = 1;                // numbers are not reused
  TagMap tags;
};

// An OpenID Connect provider, which authenticates users of other systems.
struct OpenIdProvider {
  std::string url;  // without https://
  int64_t created_s = 0;
  std::vector<std::string> client_ids;   // in order of creation
  std::vector<std::string> thumbprints;  // of certificates: 40 hexadecimal digits each
  TagMap tags;
  std::string id;  // never reused by another provider; empty: made before providers had ids
};

struct AccountEntry {
  AccountPtr account;
  std::string name;  // unique; used on the command line
  int64_t created_s = 0;
  std::vector<StoredKey> keys;  // of its root; the configured root key is not among the root account's
  ByName<User> users;
  ByName<Group> groups;
  ByName<Role> roles;
  ByName<ManagedPolicy> policies;
  std::map<std::string, OpenIdProvider> open_id_providers;  // by URL
  LimitsPtr limits;                                         // null: none
  // The id of the removal in progress; empty: none. Until that ends the account keeps its contents and its names, and
  // its keys and sessions are refused.
  std::string removal;
};
using AccountEntryPtr = std::shared_ptr<const AccountEntry>;
using AccountMap = std::map<std::string, AccountEntryPtr>;  // by account id

// "arn:aws:iam::123456789012:user/path/name"; kind: "user", "group", "role", "policy", "oidc-provider".
std::string arn_of(std::string_view account_id, std::string_view kind, std::string_view path, std::string_view name);
std::string user_arn(const AccountEntry& account, const User& user);
std::string role_arn(const AccountEntry& account, const Role& role);
std::string policy_arn(const AccountEntry& account, const ManagedPolicy& policy);

std::string provider_arn(const AccountEntry& account, const OpenIdProvider& provider);
// nullptr for an ARN of no provider of the account.
const OpenIdProvider* find_provider(const AccountEntry& account, std::string_view arn);
// Distinguishes a provider from a later one of the same name.
std::string provider_tag(const OpenIdProvider& provider);

// "arn:aws:iam::aws:policy/AmazonS3FullAccess" and a few more, which exist in every account.
const ByName<ManagedPolicy>& aws_managed_policies();
// The account's, or AWS's own; nullptr for an unknown ARN.
const ManagedPolicy* find_policy(const AccountEntry& account, std::string_view arn);

// AWS's limits (IAM User Guide, "IAM and AWS STS quotas"), and our own for accounts.
inline constexpr uint64_t identity_file_bytes_max = 512 * MiB;
inline constexpr uint64_t account_bytes_max = 16 * MiB;  // of one account in that file
inline constexpr size_t accounts_max = 10'000;
inline constexpr size_t users_max = 5'000;
inline constexpr size_t groups_max = 300;
inline constexpr size_t roles_max = 1'000;
inline constexpr size_t managed_policies_max = 1'500;
inline constexpr size_t keys_per_user_max = 2;
inline constexpr size_t groups_per_user_max = 10;
inline constexpr size_t attached_max = 10;
inline constexpr size_t user_policies_bytes_max = 2'048;  // inline documents together
inline constexpr size_t group_policies_bytes_max = 5'120;
inline constexpr size_t role_policies_bytes_max = 10'240;
inline constexpr size_t managed_policy_bytes_max = 6'144;
inline constexpr size_t trust_policy_bytes_max = 2'048;
inline constexpr size_t session_policy_bytes_max = 2'048;
inline constexpr size_t policy_versions_max = 5;
inline constexpr size_t tags_max = 50;
inline constexpr size_t open_id_providers_max = 100;
inline constexpr size_t client_ids_max = 100;
inline constexpr size_t thumbprints_max = 5;

// Principals of keys.
PrincipalPtr root_of(const AccountEntry& account);
PrincipalPtr principal_of(const AccountEntry& account, const User& user);
// A role's session, before its session policies are added.
Principal role_session(const AccountEntry& account, const Role& role, std::string_view session_name);

}  // namespace verbena::auth
