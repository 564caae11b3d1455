// Access keys, of users and of an account's root.
#include <algorithm>

#include "iam/actions.h"
#include "iam/subjects.h"

namespace verbena::iam {
namespace {

using auth::AccountEntry;
using auth::StoredKey;

Result<std::vector<StoredKey>*> keys_of(const Call& call, AccountEntry& account, const std::string& user) {
  if (user.empty()) return &account.keys;
  VB_ASSIGN(auth::User * found, find_one(call, account.users, "user", user));
  return &found->keys;
}

Result<std::vector<StoredKey>::iterator> find_key(const Call& call, std::vector<StoredKey>& keys) {
  const std::string_view id = call.get("AccessKeyId");
  const auto found = std::ranges::find(keys, id, &StoredKey::access_key);
  if (found == keys.end()) return call.missing("Access Key", id);
  return found;
}

void write_key(s3::XmlWriter& xml, const std::string& user, const StoredKey& key) {
  if (!user.empty()) xml.element("UserName", user);
  xml.element("AccessKeyId", key.access_key);
  xml.element("Status", key.active ? "Active" : "Inactive");
}

}  // namespace

Result<void> create_access_key(Call& call) {
  VB_ASSIGN(const std::string user, target_user(call));
  const StoredKey key = call.store.make_key({}, {}, call.now_s());
  VB_TRY(call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(auto* keys, keys_of(call, account, user));
    if (keys->size() >= auth::keys_per_user_max) {
      return call.too_many("AccessKeysPerUser", auth::keys_per_user_max);
    }
    keys->push_back(key);
    return {};
  }));
  call.xml.open("AccessKey");
  write_key(call.xml, user, key);
  call.xml.element("SecretAccessKey", key.secret_key);
  write_date(call.xml, "CreateDate", key.created_s);
  call.xml.close();
  return {};
}

Result<void> list_access_keys(Call& call) {
  VB_ASSIGN(const std::string user, target_user(call));
  const std::vector<StoredKey>* keys = &call.account->keys;
  if (!user.empty()) {
    VB_ASSIGN(const auth::User* found, find_one(call, call.account->users, "user", user));
    keys = &found->keys;
  }
  auth::ByName<const StoredKey*> sorted;
  for (const StoredKey& key : *keys) sorted.emplace(key.access_key, &key);
  if (!user.empty()) call.xml.element("UserName", user);
  return write_page(
      call, "AccessKeyMetadata", sorted, [](const auto& item) -> const std::string& { return item.first; },
      [](const auto&) { return true; },
      [&](const auto& item) {
        call.xml.open("member");
        write_key(call.xml, user, *item.second);
        write_date(call.xml, "CreateDate", item.second->created_s);
        call.xml.close();
      });
}

Result<void> update_access_key(Call& call) {
  VB_ASSIGN(const std::string user, target_user(call));
  const std::string_view status = call.get("Status");
  if (status != "Active" && status != "Inactive") {
    return call.refuse(Errc::validation_error, "Status must be Active or Inactive.");
  }
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(auto* keys, keys_of(call, account, user));
    VB_ASSIGN(const auto key, find_key(call, *keys));
    key->active = status == "Active";
    return {};
  });
}

Result<void> delete_access_key(Call& call) {
  VB_ASSIGN(const std::string user, target_user(call));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(auto* keys, keys_of(call, account, user));
    VB_ASSIGN(const auto key, find_key(call, *keys));
    keys->erase(key);
    return {};
  });
}

}  // namespace verbena::iam
