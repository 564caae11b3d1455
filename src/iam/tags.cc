// Tags of users, roles, managed policies and OpenID Connect providers.
#include "iam/actions.h"
#include "iam/authorize.h"
#include "iam/subjects.h"

namespace verbena::iam {
namespace {

using auth::AccountEntry;
using auth::TagMap;

constexpr size_t key_bytes_max = 128, value_bytes_max = 256;

Result<void> check_tag(const Call& call, std::string_view key, std::string_view value) {
  if (key.empty() || !is_text(key, key_bytes_max) || !is_text(value, value_bytes_max)) {
    return call.refuse(Errc::validation_error, "A tag has a key of 1 to 128 bytes and a value of at most 256.");
  }
  if (key.starts_with("aws:")) return call.refuse(Errc::validation_error, "Tags that begin with aws: are reserved.");
  return {};
}

// `account` may be const: what only reads copies nothing of an account, which may be large.
template <class Account>
auto tags_of(const Call& call, Account& account) -> Result<decltype(&account.users.begin()->second.tags)> {
  if (call.action.target == Target::policy) {
    VB_ASSIGN(auto* policy, find_own_policy(call, account));
    return &policy->tags;
  }
  if (call.action.target == Target::open_id_provider) {
    VB_ASSIGN(auto* provider, find_asked_provider(call, account));
    return &provider->tags;
  }
  if (call.action.target == Target::user) {
    VB_ASSIGN(auto* user, find_one(call, account.users, "user", call.get("UserName")));
    return &user->tags;
  }
  VB_ASSIGN(auto* role, find_one(call, account.roles, "role", call.get("RoleName")));
  return &role->tags;
}

Result<TagMap> read_set_tags(const Call& call) {
  VB_ASSIGN(const auto keys, call.parameters.members("Tags", "Key", auth::tags_max));
  VB_ASSIGN(const auto values, call.parameters.members("Tags", "Value", auth::tags_max));
  if (keys.size() != values.size()) return call.refuse(Errc::validation_error, "A tag lacks its key or its value.");
  TagMap tags;
  for (size_t i = 0; i < keys.size(); ++i) {
    VB_TRY(check_tag(call, keys[i], values[i]));
    if (!tags.emplace(keys[i], values[i]).second) {
      return call.refuse(Errc::validation_error,
                         "Duplicate tag keys found. Please note that Tag keys are case insensitive.");
    }
  }
  return tags;
}

template <class Items>
const TagMap* tags_among(const Items& items, std::string_view name) {
  const auto found = items.find(name);
  return found == items.end() ? nullptr : &found->second.tags;
}

// Null if there is no such item (yet), or its kind has no tags.
const TagMap* find_item_tags(const Call& call) {
  const AccountEntry& account = *call.account;
  switch (call.action.target) {
    case Target::own_user:
      if (!call.parameters.get("UserName")) {
        const auth::Principal& caller = call.principal();
        return caller.kind == auth::Principal::Kind::user ? tags_among(account.users, caller.name) : nullptr;
      }
      [[fallthrough]];
    case Target::user:
      return tags_among(account.users, call.get("UserName"));
    case Target::role:
      return tags_among(account.roles, call.get("RoleName"));
    case Target::policy: {
      const auth::ManagedPolicy* policy = find_policy(account, call.get("PolicyArn"));
      return policy == nullptr ? nullptr : &policy->tags;
    }
    case Target::new_policy:
      return tags_among(account.policies, call.get("PolicyName"));
    case Target::open_id_provider: {
      const auth::OpenIdProvider* provider = find_provider(account, provider_arn(call));
      return provider == nullptr ? nullptr : &provider->tags;
    }
    case Target::group:
    case Target::none:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

Result<void> read_tags(Call& call) {
  VB_ASSIGN(call.tags, read_set_tags(call));
  VB_ASSIGN(call.untagged, call.parameters.members("TagKeys", "", auth::tags_max));
  call.item_tags = find_item_tags(call);
  return {};
}

Result<TagMap> authorize_new_tags(const Call& call, std::string_view action) {
  if (!call.tags.empty()) VB_TRY(authorize(call, action, resource_of(call), *call.account->account));
  return call.tags;
}

void write_tags(s3::XmlWriter& xml, const TagMap& tags) {
  if (tags.empty()) return;
  xml.open("Tags");
  for (const auto& [key, value] : tags) {
    xml.open("member");
    xml.element("Key", key);
    xml.element("Value", value);
    xml.close();
  }
  xml.close();
}

Result<void> tag_subject(Call& call) {
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(TagMap * tags, tags_of(call, account));
    for (const auto& [key, value] : call.tags) {
      tags->erase(key);  // the key takes the new case
      tags->emplace(key, value);
    }
    if (tags->size() > auth::tags_max) return call.too_many("TagsPerEntity", auth::tags_max);
    return {};
  });
}

Result<void> untag_subject(Call& call) {
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(TagMap * tags, tags_of(call, account));
    for (const std::string& key : call.untagged) tags->erase(key);
    return {};
  });
}

Result<void> list_tags(Call& call) {
  VB_ASSIGN(const TagMap* tags, tags_of(call, *call.account));
  return write_page(
      call, "Tags", *tags, [](const auto& item) -> const std::string& { return item.first; },
      [](const auto&) { return true; },
      [&](const auto& item) {
        call.xml.open("member");
        call.xml.element("Key", item.first);
        call.xml.element("Value", item.second);
        call.xml.close();
      });
}

}  // namespace verbena::iam
