#include "auth/identity_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"

namespace verbena::auth {
namespace {

using Json = nlohmann::json;

std::string seal_context(std::string_view access_key) { return "access key " + std::string(access_key); }

Json encode_keys(const std::vector<StoredKey>& keys) {
  Json list = Json::array();
  for (const StoredKey& key : keys) {
    list.push_back(
        {{"id", key.access_key}, {"sealed", key.sealed}, {"active", key.active}, {"created", key.created_s}});
  }
  return list;
}

// The common fields of users, groups, roles and managed policies.
template <class T>
Json encode_common(const T& from) {
  return {{"name", from.name}, {"path", from.path}, {"id", from.id}, {"created", from.created_s}};
}

Json encode_policy_set(const PolicySet& policy_set) {
  Json documents = Json::object();
  for (const auto& [name, document] : policy_set.inline_policies) documents[name] = document.text;
  return {{"inline", std::move(documents)}, {"attached", policy_set.attached}};
}

Json encode_tags(const TagMap& tags) {
  Json out = Json::object();
  for (const auto& [key, value] : tags) out[key] = value;
  return out;
}

void encode_limits(const LimitsPtr& limits, Json& json) {
  if (limits != nullptr) json["quota"] = quota_text(limits->quota());
}

void encode_versions(const ManagedPolicy& policy, Json& json) {
  json["version"] = policy.version;
  json["version_created"] = policy.version_created_s;
  json["versions_made"] = policy.versions_made;
  Json others = Json::array();
  for (const auto& [number, other] : policy.others) {
    others.push_back({{"number", number}, {"document", other.document.text}, {"created", other.created_s}});
  }
  json["others"] = std::move(others);
}

Json encode_providers(const std::map<std::string, OpenIdProvider>& providers) {
  Json out = Json::array();
  for (const auto& [url, provider] : providers) {
    out.push_back({{"url", url},
                   {"id", provider.id},
                   {"created", provider.created_s},
                   {"client_ids", provider.client_ids},
                   {"thumbprints", provider.thumbprints},
                   {"tags", encode_tags(provider.tags)}});
  }
  return out;
}

Json encode_account(const AccountEntry& entry) {
  const Account& account = *entry.account;
  Json out = {{"id", account.id},
              {"canonical_id", account.canonical_id},
              {"display_name", account.display_name},
              {"email", account.email},
              {"name", entry.name},
              {"created", entry.created_s},
              {"keys", encode_keys(entry.keys)}};
  Json users = Json::array(), groups = Json::array(), roles = Json::array(), policies = Json::array();
  for (const auto& [name, user] : entry.users) {
    Json json = encode_common(user);
    json["keys"] = encode_keys(user.keys);
    json["grants"] = encode_policy_set(user.policy_set);
    json["tags"] = encode_tags(user.tags);
    encode_limits(user.limits, json);
    users.push_back(std::move(json));
  }
  for (const auto& [name, group] : entry.groups) {
    Json json = encode_common(group);
    json["grants"] = encode_policy_set(group.policy_set);
    json["members"] = group.members;
    groups.push_back(std::move(json));
  }
  for (const auto& [name, role] : entry.roles) {
    Json json = encode_common(role);
    json["grants"] = encode_policy_set(role.policy_set);
    json["trust"] = role.trust.text;
    json["description"] = role.description;
    json["session_max"] = role.session_max_s;
    json["tags"] = encode_tags(role.tags);
    roles.push_back(std::move(json));
  }
  for (const auto& [name, policy] : entry.policies) {
    Json json = encode_common(policy);
    json["document"] = policy.document.text;
    json["description"] = policy.description;
    encode_versions(policy, json);
    json["tags"] = encode_tags(policy.tags);
    policies.push_back(std::move(json));
  }
  out["users"] = std::move(users);
  out["groups"] = std::move(groups);
  out["roles"] = std::move(roles);
  out["policies"] = std::move(policies);
  out["open_id_providers"] = encode_providers(entry.open_id_providers);
  encode_limits(entry.limits, out);
  // Older programs ignore the member, and drop it with their next change: to them the account is not being removed.
  if (!entry.removal.empty()) out["removal"] = entry.removal;
  return out;
}

// Reads members of one object and records whether any is missing.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json), sound_(json.is_object()) {}
  std::string text(const char* name) {
    const Json* found = member(name);
    if (found != nullptr && found->is_string()) return found->get<std::string>();
    sound_ = false;
    return {};
  }
  int64_t number(const char* name) {
    const Json* found = member(name);
    if (found != nullptr && found->is_number_integer()) return found->get<int64_t>();
    sound_ = false;
    return 0;
  }
  bool flag(const char* name) {
    const Json* found = member(name);
    if (found != nullptr && found->is_boolean()) return found->get<bool>();
    sound_ = false;
    return false;
  }
  // For members that files of the first version lack.
  bool has(const char* name) const { return member(name) != nullptr; }
  const Json& object(const char* name) { return of_type(name, Json::value_t::object); }
  const Json& list(const char* name) { return of_type(name, Json::value_t::array); }
  bool sound() const { return sound_; }

 private:
  const Json* member(const char* name) const {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }
  const Json& of_type(const char* name, Json::value_t type) {
    static const Json none;
    const Json* found = member(name);
    if (found != nullptr && found->type() == type) return *found;
    sound_ = false;
    return none;  // null: has no elements
  }
  const Json& json_;
  bool sound_;
};

Result<PolicyDocument> decode_document(std::string text, PolicyKind kind) {
  PolicyDocument document{std::move(text), nullptr};
  auto parsed = parse_policy(document.text, kind);
  if (!parsed) return fail(Errc::malformed, "identity file: a policy cannot be read");
  document.policy = std::move(*parsed);
  return document;
}

Result<std::vector<StoredKey>> decode_keys(const Json& list, const KeyRing& ring) {
  std::vector<StoredKey> keys;
  for (const Json& item : list) {
    Reader read(item);
    StoredKey key;
    key.access_key = read.text("id");
    key.sealed = read.text("sealed");
    key.active = read.flag("active");
    key.created_s = read.number("created");
    const auto sealed = from_base64(key.sealed);
    if (!read.sound() || !sealed) return fail(Errc::malformed, "identity file: an access key");
    VB_ASSIGN(const Secret plain, ring.unseal(*sealed, seal_context(key.access_key)));
    key.secret_key = plain.text();
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<PolicySet> decode_policy_set(const Json& json) {
  Reader read(json);
  PolicySet policy_set;
  for (const auto& [name, text] : read.object("inline").items()) {
    if (!text.is_string()) return fail(Errc::malformed, "identity file: an inline policy");
    VB_ASSIGN(auto document, decode_document(text.get<std::string>(), PolicyKind::identity));
    if (!policy_set.inline_policies.emplace(name, std::move(document)).second) {
      return fail(Errc::malformed, "identity file: two inline policies of one name");
    }
  }
  for (const Json& arn : read.list("attached")) {
    if (!arn.is_string()) return fail(Errc::malformed, "identity file: an attached policy");
    policy_set.attached.insert(arn.get<std::string>());
  }
  if (!read.sound()) return fail(Errc::malformed, "identity file: the policies of a user, group or role");
  return policy_set;
}

Result<TagMap> decode_tags(Reader& read) {
  TagMap tags;
  if (!read.has("tags")) return tags;
  for (const auto& [key, value] : read.object("tags").items()) {
    if (!value.is_string() || !tags.emplace(key, value.get<std::string>()).second) {
      return fail(Errc::malformed, "identity file: a tag");
    }
  }
  return tags;
}

Result<LimitsPtr> decode_limits(Reader& read) {
  if (!read.has("quota")) return LimitsPtr();
  const auto quota = parse_quota(read.text("quota"));
  if (!quota) return fail(Errc::malformed, "identity file: a quota");
  return make_limits(*quota);
}

Result<void> decode_versions(Reader& read, ManagedPolicy& out) {
  out.version_created_s = out.created_s;
  if (!read.has("versions_made")) return {};
  out.version = static_cast<int>(read.number("version"));
  out.version_created_s = read.number("version_created");
  out.versions_made = static_cast<int>(read.number("versions_made"));
  for (const Json& item : read.list("others")) {
    Reader other(item);
    const auto number = static_cast<int>(other.number("number"));
    PolicyVersion version;
    version.created_s = other.number("created");
    VB_ASSIGN(version.document, decode_document(other.text("document"), PolicyKind::identity));
    if (!other.sound() || number == out.version || !out.others.emplace(number, std::move(version)).second) {
      return fail(Errc::malformed, "identity file: a version of a policy");
    }
  }
  return {};
}

Result<std::vector<std::string>> decode_texts(const Json& list) {
  std::vector<std::string> out;
  for (const Json& item : list) {
    if (!item.is_string()) return fail(Errc::malformed, "identity file: a list of texts");
    out.push_back(item.get<std::string>());
  }
  return out;
}

Result<void> decode_providers(Reader& read, AccountEntry& entry) {
  if (!read.has("open_id_providers")) return {};
  for (const Json& item : read.list("open_id_providers")) {
    Reader one(item);
    OpenIdProvider provider;
    provider.url = one.text("url");
    if (one.has("id")) provider.id = one.text("id");
    provider.created_s = one.number("created");
    VB_ASSIGN(provider.client_ids, decode_texts(one.list("client_ids")));
    VB_ASSIGN(provider.thumbprints, decode_texts(one.list("thumbprints")));
    VB_ASSIGN(provider.tags, decode_tags(one));
    std::string url = provider.url;
    if (!one.sound() || !entry.open_id_providers.emplace(std::move(url), std::move(provider)).second) {
      return fail(Errc::malformed, "identity file: an OpenID Connect provider");
    }
  }
  return {};
}

template <class T>
void decode_common(Reader& read, T& out) {
  out.name = read.text("name");
  out.path = read.text("path");
  out.id = read.text("id");
  out.created_s = read.number("created");
}

Result<void> decode_one(const Json& json, const KeyRing& ring, User& out) {
  Reader read(json);
  decode_common(read, out);
  VB_ASSIGN(out.keys, decode_keys(read.list("keys"), ring));
  VB_ASSIGN(out.policy_set, decode_policy_set(read.object("grants")));
  VB_ASSIGN(out.tags, decode_tags(read));
  VB_ASSIGN(out.limits, decode_limits(read));
  return read.sound() ? Result<void>{} : fail(Errc::malformed, "identity file: a user");
}

Result<void> decode_one(const Json& json, const KeyRing&, Group& out) {
  Reader read(json);
  decode_common(read, out);
  VB_ASSIGN(out.policy_set, decode_policy_set(read.object("grants")));
  for (const Json& member : read.list("members")) {
    if (!member.is_string()) return fail(Errc::malformed, "identity file: a group's member");
    out.members.insert(member.get<std::string>());
  }
  return read.sound() ? Result<void>{} : fail(Errc::malformed, "identity file: a group");
}

Result<void> decode_one(const Json& json, const KeyRing&, Role& out) {
  Reader read(json);
  decode_common(read, out);
  out.description = read.text("description");
  out.session_max_s = read.number("session_max");
  VB_ASSIGN(out.trust, decode_document(read.text("trust"), PolicyKind::trust));
  VB_ASSIGN(out.policy_set, decode_policy_set(read.object("grants")));
  VB_ASSIGN(out.tags, decode_tags(read));
  return read.sound() ? Result<void>{} : fail(Errc::malformed, "identity file: a role");
}

Result<void> decode_one(const Json& json, const KeyRing&, ManagedPolicy& out) {
  Reader read(json);
  decode_common(read, out);
  out.description = read.text("description");
  VB_ASSIGN(out.document, decode_document(read.text("document"), PolicyKind::identity));
  VB_TRY(decode_versions(read, out));
  VB_ASSIGN(out.tags, decode_tags(read));
  return read.sound() ? Result<void>{} : fail(Errc::malformed, "identity file: a managed policy");
}

template <class T>
Result<void> decode_all(const Json& list, const KeyRing& ring, ByName<T>& out) {
  for (const Json& item : list) {
    T one;
    VB_TRY(decode_one(item, ring, one));
    std::string name = one.name;
    if (!out.emplace(std::move(name), std::move(one)).second) {
      return fail(Errc::malformed, "identity file: two of one name");
    }
  }
  return {};
}

Result<AccountEntry> decode_account(const Json& json, const KeyRing& ring) {
  Reader read(json);
  Account account;
  account.id = read.text("id");
  account.canonical_id = read.text("canonical_id");
  account.display_name = read.text("display_name");
  account.email = read.text("email");
  AccountEntry entry;
  entry.account = account.id == root_account_id ? root_account() : std::make_shared<const Account>(std::move(account));
  entry.name = read.text("name");
  entry.created_s = read.number("created");
  VB_ASSIGN(entry.keys, decode_keys(read.list("keys"), ring));
  VB_TRY(decode_all(read.list("users"), ring, entry.users));
  VB_TRY(decode_all(read.list("groups"), ring, entry.groups));
  VB_TRY(decode_all(read.list("roles"), ring, entry.roles));
  VB_TRY(decode_all(read.list("policies"), ring, entry.policies));
  VB_TRY(decode_providers(read, entry));
  VB_ASSIGN(entry.limits, decode_limits(read));
  if (read.has("removal")) entry.removal = read.text("removal");
  if (!read.sound()) return fail(Errc::malformed, "identity file: an account");
  return entry;
}

std::string text_of_json(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A flipped bit may leave valid JSON with another meaning: a policy that allows more, a user of another name.
uint32_t checksum_of(const Json& accounts) { return crc32c(as_bytes(text_of_json(accounts))); }

std::string encode_one(const AccountEntry& entry) { return text_of_json(encode_account(entry)); }

size_t inactive(const std::vector<StoredKey>& keys) {
  return static_cast<size_t>(std::ranges::count_if(keys, [](const StoredKey& key) { return !key.active; }));
}

size_t quota_size(const LimitsPtr& limits) {
  Json json = Json::object();
  encode_limits(limits, json);
  return limits == nullptr ? 0 : text_of_json(json).size();
}

// What an account's limit counts. Not what an operator needs to restrict an account that has filled its part: quotas,
// and the account's own keys, which are few. A key that is turned off takes a byte more in the text ("false"), which is
// not counted either, nor is the mark of a removal.
size_t limited_size(const AccountEntry& entry, std::string_view text) {
  size_t free = text_of_json(encode_keys(entry.keys)).size() + quota_size(entry.limits);
  if (!entry.removal.empty()) free += std::string_view(R"("removal":"",)").size() + entry.removal.size();
  for (const auto& [name, user] : entry.users) free += inactive(user.keys) + quota_size(user.limits);
  return text.size() - std::min(free, text.size());
}

// One account a line. The checksum is that of the list without the line ends, as checksum_of() makes it when the file
// is read.
std::string join_accounts(const std::vector<const std::string*>& accounts) {
  size_t size = 0;
  for (const std::string* account : accounts) size += account->size() + 2;
  std::string out;
  out.reserve(size + 64);  // the members' names
  out = R"({"accounts":[)";
  uint32_t crc = crc32c(as_bytes("["));
  for (const std::string* account : accounts) {
    const bool first = account == accounts.front();
    if (!first) crc = crc32c(as_bytes(","), crc);
    crc = crc32c(as_bytes(*account), crc);
    out += first ? "\n" : ",\n";
    out += *account;
  }
  crc = crc32c(as_bytes("]"), crc);
  out += "\n],\"crc32c\":" + std::to_string(crc) + ",\"version\":" + std::to_string(identity_file_version) + "}\n";
  return out;
}

}  // namespace

std::string seal_secret(const KeyRing& keys, std::string_view access_key, std::string_view secret) {
  return to_base64(as_bytes(keys.seal(as_bytes(secret), seal_context(access_key))));
}

std::string encode_accounts(const AccountMap& accounts) {
  std::vector<std::string> texts;
  texts.reserve(accounts.size());
  for (const auto& [id, entry] : accounts) texts.push_back(encode_one(*entry));
  std::vector<const std::string*> parts;
  for (const std::string& text : texts) parts.push_back(&text);
  return join_accounts(parts);
}

const std::string& AccountTexts::text_of(const std::string& id, const AccountEntryPtr& entry) {
  Text& kept = texts_[id];
  if (kept.of != entry) {
    kept = {entry, encode_one(*entry)};
    ++encoded_;
  }
  return kept.text;
}

Result<std::string> AccountTexts::encode(const AccountMap& now, const AccountMap& before, uint64_t account_bytes_max) {
  std::erase_if(texts_, [&](const auto& text) { return !now.contains(text.first); });
  std::vector<const std::string*> parts;
  for (const auto& [id, entry] : now) {
    const std::string& text = text_of(id, entry);
    parts.push_back(&text);
    if (text.size() <= account_bytes_max) continue;  // all but a few, at each change
    const size_t size = limited_size(*entry, text);
    if (size <= account_bytes_max) continue;
    const auto old = before.find(id);
    const bool grows =
        old == before.end() || (old->second != entry && size > limited_size(*old->second, encode_one(*old->second)));
    if (grows)
      return fail(Errc::limit_exceeded, "The account's users, roles, policies and keys take more room than they may.");
  }
  return join_accounts(parts);
}

Result<AccountMap> decode_accounts(std::string_view text, const KeyRing& keys) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return fail(Errc::malformed, "identity file: not JSON, or not whole");
  Reader read(json);
  const int64_t version = read.number("version");
  if (read.sound() && (version < 1 || version > identity_file_version)) {
    return fail(Errc::unsupported, "identity file: made by another version of Verbena");
  }
  // Files of older servers have no checksum.
  if (json.is_object() && json.contains("crc32c")) {
    if (!json.contains("accounts") || json["crc32c"] != checksum_of(json["accounts"])) {
      return fail(Errc::malformed, "identity file: damaged, its checksum (crc32c) is of other bytes");
    }
  }
  AccountMap accounts;
  for (const Json& item : read.list("accounts")) {
    VB_ASSIGN(auto entry, decode_account(item, keys));
    std::string id = entry.account->id;
    auto shared = std::make_shared<const AccountEntry>(std::move(entry));
    if (!accounts.emplace(std::move(id), std::move(shared)).second) {
      return fail(Errc::malformed, "identity file: two accounts of one id");
    }
  }
  if (!read.sound()) return fail(Errc::malformed, "identity file: version or accounts are missing");
  return accounts;
}

}  // namespace verbena::auth
