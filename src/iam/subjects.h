// Look-up of users, groups and roles, for several families of calls.
#pragma once

#include <string>
#include <string_view>

#include "iam/call.h"

namespace verbena::iam {

inline constexpr size_t user_name_max = 64;
inline constexpr size_t group_name_max = 128;
inline constexpr size_t role_name_max = 64;
inline constexpr size_t policy_name_max = 128;

// T is User, Group or Role; `Map` a ByName of it, const or not. no_such_entity.
template <class Map>
auto find_one(const Call& call, Map& map, std::string_view kind, std::string_view name)
    -> Result<decltype(&map.begin()->second)> {
  const auto found = map.find(name);
  if (found == map.end()) return call.missing(kind, name);
  return &found->second;
}

// The owner of the policies that the action concerns.
template <class Policies>
struct SubjectWith {
  Policies* policy_set = nullptr;
  size_t inline_bytes_max = 0;
  std::string kind, name;
};
using Subject = SubjectWith<auth::PolicySet>;
Result<Subject> find_subject(const Call& call, auth::AccountEntry& account);

// The user that a call concerns: UserName, else the caller. Empty: the account's root.
Result<std::string> target_user(const Call& call);

// Sets the call's tags from Tags.member.N.Key and .Value and from TagKeys.member.N, and the tags of its item, because
// policies can ask for all of them. validation_error.
Result<void> read_tags(Call& call);
// The tags of a new item; they also require `action`.
Result<auth::TagMap> authorize_new_tags(const Call& call, std::string_view action);
// <Tags>, if there are any.
void write_tags(s3::XmlWriter& xml, const auth::TagMap& tags);

// The OpenID Connect provider that a call concerns.
std::string provider_arn(const Call& call);
// OpenIDConnectProviderArn's. no_such_entity.
Result<auth::OpenIdProvider*> find_asked_provider(const Call& call, auth::AccountEntry& account);
Result<const auth::OpenIdProvider*> find_asked_provider(const Call& call, const auth::AccountEntry& account);
// PolicyArn's, which must be the account's own to be changed. access_denied for one of AWS's; no_such_entity.
Result<auth::ManagedPolicy*> find_own_policy(const Call& call, auth::AccountEntry& account);
Result<const auth::ManagedPolicy*> find_own_policy(const Call& call, const auth::AccountEntry& account);

void write_user(s3::XmlWriter& xml, const auth::AccountEntry& account, const auth::User& user);
void write_group(s3::XmlWriter& xml, const auth::AccountEntry& account, const auth::Group& group);

}  // namespace verbena::iam
