#include "iam/admin.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "auth/identifiers.h"
#include "base/date.h"
#include "base/log.h"
#include "iam/call.h"
#include "iam/subjects.h"
#include "s3/errors.h"

namespace verbena::iam {
namespace {

using Json = nlohmann::json;

constexpr int request_depth_max = 32;
using auth::AccountEntry;
using auth::StoredKey;
using auth::User;

struct Request {
  auth::IdentityStore& store;
  const WallClock& clock;
  const Json& in;
  const std::set<std::string>& bucket_owners;
  std::string& message;
  auth::AccountEntryPtr& marked;
  std::string account, user;  // of "name"

  [[nodiscard]] std::unexpected<Error> refuse(Errc code, std::string text) const {
    message = std::move(text);
    return fail(code, "admin");
  }
  // A text member; empty when it is missing and optional.
  Result<std::string> text(const char* name, bool needed = false) const {
    const auto found = in.find(name);
    if (found == in.end() && !needed) return std::string();
    if (found == in.end() || !found->is_string()) {
      return refuse(Errc::validation_error, std::string(name) + " must be there, and a text.");
    }
    return found->get<std::string>();
  }
  std::string whole_name() const { return user.empty() ? account : account + "/" + user; }
};

std::string date(int64_t seconds) { return format_iso8601(seconds * 1'000'000); }

Result<auth::AccountEntryPtr> find_account(const Request& request) {
  auto found = request.store.account_named(request.account);
  if (found == nullptr) return request.refuse(Errc::no_such_entity, "There is no account " + request.account + ".");
  return found;
}

// Changes the account, and in it the user if the name has one (else null).
Result<void> change(const Request& request, const std::function<Result<void>(AccountEntry&, User*)>& edit) {
  VB_ASSIGN(const auto account, find_account(request));
  return request.store.change_account(account->account->id, [&](AccountEntry& entry) -> Result<void> {
    if (request.user.empty()) return edit(entry, nullptr);
    const auto user = entry.users.find(request.user);
    if (user == entry.users.end()) {
      return request.refuse(Errc::no_such_entity, "There is no user " + request.whole_name() + ".");
    }
    return edit(entry, &user->second);
  });
}

Json describe_keys(const std::vector<StoredKey>& keys) {
  Json list = Json::array();
  for (const StoredKey& key : keys) {
    list.push_back({{"access_key", key.access_key}, {"active", key.active}, {"created", date(key.created_s)}});
  }
  return list;
}

Json describe_account(const AccountEntry& entry) {
  Json users = Json::array();
  for (const auto& [name, user] : entry.users) {
    users.push_back({{"name", entry.name + "/" + name},
                     {"arn", user_arn(entry, user)},
                     {"created", date(user.created_s)},
                     {"keys", describe_keys(user.keys)}});
  }
  return {{"name", entry.name},
          {"account_id", entry.account->id},
          {"id", entry.account->canonical_id},
          {"display_name", entry.account->display_name},
          {"email", entry.account->email},
          {"arn", root_of(entry)->arn},
          {"created", date(entry.created_s)},
          {"keys", describe_keys(entry.keys)},
          {"users", std::move(users)}};
}

Result<StoredKey> new_key(const Request& request) {
  VB_ASSIGN(std::string access_key, request.text("access_key"));
  VB_ASSIGN(std::string secret_key, request.text("secret_key"));
  if (access_key.empty() != secret_key.empty()) {
    return request.refuse(Errc::validation_error, "An access key and a secret key go together.");
  }
  if (!access_key.empty() && (!auth::is_access_key(access_key) || !is_text(access_key, 128))) {
    return request.refuse(Errc::validation_error,
                          "An access key must have 3 to 128 printable characters, without a slash.");
  }
  if (!secret_key.empty() && (!auth::is_secret_key(secret_key) || !is_text(secret_key, 256))) {
    return request.refuse(Errc::validation_error, "A secret key must have 8 to 256 printable characters.");
  }
  return request.store.make_key(std::move(access_key), std::move(secret_key), request.clock.now_s());
}

void add_new_key(Json& out, const StoredKey& key) {
  out["access_key"] = key.access_key;
  out["secret_key"] = key.secret_key;
}

Result<std::string> email_of(const Request& request) {
  VB_ASSIGN(std::string email, request.text("email"));
  const bool plain = std::ranges::all_of(email, [](char c) { return c > 0x20 && c < 0x7f; });
  if (!email.empty() && (!plain || email.size() > 254 || email.find('@') == std::string::npos)) {
    return request.refuse(Errc::validation_error, "The email address is invalid.");
  }
  for (char& c : email) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return email;
}

Result<auth::AccountPtr> new_account(const Request& request) {
  auth::Account account;
  VB_ASSIGN(account.canonical_id, request.text("id"));
  const auto printable = [](char c) { return c > 0x20 && c < 0x7f && c != '/'; };
  constexpr size_t longest = 128;  // RGW's tenant$id, the parts of 64 characters
  if (account.canonical_id.size() > longest || !std::ranges::all_of(account.canonical_id, printable)) {
    return request.refuse(Errc::validation_error,
                          "The id must have 1 to 128 printable characters, without blanks and slashes.");
  }
  if (account.canonical_id.empty()) account.canonical_id = auth::make_canonical_id();
  VB_ASSIGN(account.display_name, request.text("display_name"));
  if (account.display_name.empty()) account.display_name = request.account;
  if (!is_text(account.display_name, 256)) {
    return request.refuse(Errc::validation_error, "The display name must be printable text of at most 256 bytes.");
  }
  VB_ASSIGN(account.email, email_of(request));
  do {
    account.id = auth::make_account_id();
  } while (request.store.account(account.id) != nullptr);
  return std::make_shared<const auth::Account>(std::move(account));
}

Result<Json> add_account(const Request& request) {
  AccountEntry entry;
  entry.name = request.account;
  entry.created_s = request.clock.now_s();
  VB_ASSIGN(entry.account, new_account(request));
  VB_ASSIGN(StoredKey key, new_key(request));
  entry.keys.push_back(key);
  const auto added = std::make_shared<const AccountEntry>(std::move(entry));
  VB_TRY(request.store.change([&](auth::AccountMap& accounts) -> Result<void> {
    if (accounts.size() >= auth::accounts_max) return fail(Errc::limit_exceeded, "There are too many accounts.");
    accounts.emplace(added->account->id, added);
    return {};
  }));
  Json out = describe_account(*added);
  out.erase("keys");
  out.erase("users");
  add_new_key(out, key);
  return out;
}

Result<Json> add_user(const Request& request) {
  for (const char* name : {"id", "display_name", "email"}) {
    if (!request.in.contains(name)) continue;
    return request.refuse(Errc::validation_error, "A user in an account takes no id, display name or email address.");
  }
  User user;
  user.name = request.user;
  user.id = auth::make_id("AIDA");
  user.created_s = request.clock.now_s();
  VB_ASSIGN(const std::string path, request.text("path"));
  if (!path.empty()) user.path = path;
  if (!is_path(user.path)) return request.refuse(Errc::validation_error, "A path begins and ends with a slash.");
  VB_ASSIGN(StoredKey key, new_key(request));
  user.keys.push_back(key);
  VB_ASSIGN(const auto account, find_account(request));
  VB_TRY(request.store.change_account(account->account->id, [&](AccountEntry& entry) -> Result<void> {
    if (entry.users.size() >= auth::users_max) return fail(Errc::limit_exceeded, "The account has too many users.");
    if (entry.users.emplace(user.name, user).second) return {};
    return request.refuse(Errc::entity_already_exists, "There is a user " + request.whole_name() + " already.");
  }));
  Json out = {{"name", request.whole_name()},
              {"account_id", account->account->id},
              {"arn", user_arn(*account, user)},
              {"created", date(user.created_s)}};
  add_new_key(out, key);
  return out;
}

Result<Json> serve_user_add(const Request& request) {
  if (!is_name(request.account, user_name_max) || (!request.user.empty() && !is_name(request.user, user_name_max))) {
    return request.refuse(Errc::validation_error,
                          "A name must have 1 to 64 letters, digits and _+=,.@- (or be ACCOUNT/NAME of two such).");
  }
  return request.user.empty() ? add_account(request) : add_user(request);
}

Result<Json> serve_user_list(const Request& request) {
  Json list = Json::array();
  for (const auto& [id, entry] : *request.store.accounts()) list.push_back(describe_account(*entry));
  return Json{{"accounts", std::move(list)}};
}

std::string owns_buckets(const std::string& account) { return "The account " + account + " still owns buckets."; }

Result<Json> remove_account(const Request& request) {
  VB_ASSIGN(const auto account, find_account(request));
  if (account->account->id == auth::root_account_id) {
    return request.refuse(Errc::delete_conflict, "The root account cannot be removed.");
  }
  if (request.bucket_owners.contains(account->account->canonical_id)) {
    return request.refuse(Errc::delete_conflict, owns_buckets(request.account));
  }
  const auto marked = std::make_shared<AccountEntry>();
  VB_TRY(request.store.change_account(account->account->id, [&](AccountEntry& entry) -> Result<void> {
    entry.removal = auth::make_id("REMO");
    *marked = entry;
    return {};
  }));
  request.marked = marked;
  return Json::object();
}

// Removes the user or account with its keys, policies and memberships.
Result<Json> serve_user_rm(const Request& request) {
  if (request.user.empty()) return remove_account(request);
  VB_TRY(change(request, [&](AccountEntry& entry, User* user) -> Result<void> {
    for (auto& [name, group] : entry.groups) group.members.erase(user->name);
    entry.users.erase(user->name);
    return {};
  }));
  return Json::object();
}

std::vector<StoredKey>& keys_of(AccountEntry& entry, User* user) { return user != nullptr ? user->keys : entry.keys; }

Result<Json> serve_key_add(const Request& request) {
  VB_ASSIGN(StoredKey key, new_key(request));
  VB_TRY(change(request, [&](AccountEntry& entry, User* user) -> Result<void> {
    auto& keys = keys_of(entry, user);
    if (keys.size() >= auth::keys_per_user_max) {
      return request.refuse(Errc::limit_exceeded, request.whole_name() + " has two access keys, and may have no more.");
    }
    keys.push_back(key);
    return {};
  }));
  Json out = {{"name", request.whole_name()}};
  add_new_key(out, key);
  return out;
}

Result<Json> serve_key_list(const Request& request) {
  VB_ASSIGN(const auto account, find_account(request));
  if (request.user.empty()) return Json{{"keys", describe_keys(account->keys)}};
  const auto user = account->users.find(request.user);
  if (user == account->users.end()) {
    return request.refuse(Errc::no_such_entity, "There is no user " + request.whole_name() + ".");
  }
  return Json{{"keys", describe_keys(user->second.keys)}};
}

// `edit` gets all keys of the user, and an iterator to the requested one.
Result<Json> change_key(const Request& request,
                        const std::function<void(std::vector<StoredKey>&, std::vector<StoredKey>::iterator)>& edit) {
  VB_ASSIGN(const std::string access_key, request.text("access_key", true));
  VB_TRY(change(request, [&](AccountEntry& entry, User* user) -> Result<void> {
    auto& keys = keys_of(entry, user);
    const auto key = std::ranges::find(keys, access_key, &StoredKey::access_key);
    if (key == keys.end()) {
      return request.refuse(Errc::no_such_entity, request.whole_name() + " has no access key of this name.");
    }
    edit(keys, key);
    return {};
  }));
  return Json::object();
}

Result<Json> serve_key_set(const Request& request) {
  const auto active = request.in.find("active");
  if (active == request.in.end() || !active->is_boolean()) {
    return request.refuse(Errc::validation_error, "active must be true or false.");
  }
  const bool on = active->get<bool>();
  return change_key(request, [on](auto&, auto key) { key->active = on; });
}

Result<Json> serve_key_rm(const Request& request) {
  return change_key(request, [](auto& keys, auto key) { keys.erase(key); });
}

// Only users have policies.
Result<void> change_policies(const Request& request,
                             const std::function<Result<void>(const AccountEntry&, auth::PolicySet&)>& edit) {
  return change(request, [&](AccountEntry& entry, User* user) -> Result<void> {
    if (user != nullptr) return edit(entry, user->policy_set);
    return request.refuse(
        Errc::validation_error,
        "The root of an account is not limited by policies. Make a user in it: " + entry.name + "/NAME.");
  });
}

Result<std::string> policy_name(const Request& request) {
  VB_ASSIGN(std::string name, request.text("policy", true));
  if (is_name(name, policy_name_max)) return name;
  return request.refuse(Errc::validation_error,
                        "A policy's name must have 1 to 128 letters, digits and _+=,.@- characters.");
}

Result<auth::PolicyDocument> policy_document(const Request& request) {
  const auto found = request.in.find("document");
  auth::PolicyDocument document;
  if (found != request.in.end() && found->is_object()) document.text = found->dump();
  if (found != request.in.end() && found->is_string()) document.text = found->get<std::string>();
  auto parsed = auth::parse_policy(document.text, auth::PolicyKind::identity);
  if (!parsed) return request.refuse(Errc::malformed_policy_document, parsed.error().context);
  document.policy = std::move(*parsed);
  document.text = without_blanks(document.text);
  return document;
}

Result<Json> serve_policy_put(const Request& request) {
  VB_ASSIGN(const std::string name, policy_name(request));
  VB_ASSIGN(const auth::PolicyDocument document, policy_document(request));
  VB_TRY(change_policies(request, [&](const AccountEntry&, auth::PolicySet& policy_set) -> Result<void> {
    policy_set.inline_policies.insert_or_assign(name, document);
    size_t bytes = 0;
    for (const auto& [other, kept] : policy_set.inline_policies) bytes += kept.text.size();
    if (bytes <= auth::user_policies_bytes_max) return {};
    return request.refuse(Errc::limit_exceeded, "The inline policies of a user may have 2048 bytes together.");
  }));
  return Json::object();
}

Result<const User*> find_user(const Request& request, const AccountEntry& account) {
  const auto user = account.users.find(request.user);
  if (user == account.users.end()) {
    return request.refuse(Errc::no_such_entity, "There is no user " + request.whole_name() + ".");
  }
  return &user->second;
}

Result<Json> serve_policy_get(const Request& request) {
  VB_ASSIGN(const std::string name, policy_name(request));
  VB_ASSIGN(const auto account, find_account(request));
  VB_ASSIGN(const User* user, find_user(request, *account));
  const auto policy = user->policy_set.inline_policies.find(name);
  if (policy == user->policy_set.inline_policies.end()) {
    return request.refuse(Errc::no_such_entity, request.whole_name() + " has no policy " + name + ".");
  }
  return Json{{"policy", policy->first}, {"document", policy->second.text}};
}

Result<Json> serve_policy_rm(const Request& request) {
  VB_ASSIGN(const std::string name, policy_name(request));
  VB_TRY(change_policies(request, [&](const AccountEntry&, auth::PolicySet& policy_set) -> Result<void> {
    if (policy_set.inline_policies.erase(name) != 0) return {};
    return request.refuse(Errc::no_such_entity, request.whole_name() + " has no policy " + name + ".");
  }));
  return Json::object();
}

Result<Json> serve_policy_attach(const Request& request) {
  VB_ASSIGN(const std::string arn, request.text("arn", true));
  VB_TRY(change_policies(request, [&](const AccountEntry& entry, auth::PolicySet& policy_set) -> Result<void> {
    if (find_policy(entry, arn) == nullptr)
      return request.refuse(Errc::no_such_entity, "There is no policy " + arn + ".");
    policy_set.attached.insert(arn);
    if (policy_set.attached.size() <= auth::attached_max) return {};
    return request.refuse(Errc::limit_exceeded, "A user may have 10 attached policies.");
  }));
  return Json::object();
}

Result<Json> serve_policy_detach(const Request& request) {
  VB_ASSIGN(const std::string arn, request.text("arn", true));
  VB_TRY(change_policies(request, [&](const AccountEntry&, auth::PolicySet& policy_set) -> Result<void> {
    if (policy_set.attached.erase(arn) != 0) return {};
    return request.refuse(Errc::no_such_entity, request.whole_name() + " has no policy " + arn + " attached.");
  }));
  return Json::object();
}

Result<Json> serve_policy_list(const Request& request) {
  VB_ASSIGN(const auto account, find_account(request));
  VB_ASSIGN(const User* user, find_user(request, *account));
  Json names = Json::array();
  for (const auto& [name, document] : user->policy_set.inline_policies) names.push_back(name);
  return Json{{"inline", std::move(names)}, {"attached", user->policy_set.attached}};
}

Json describe_quota(const auth::LimitsPtr& limits) {
  return limits == nullptr ? Json::object() : Json::parse(auth::quota_text(limits->quota()));
}

Result<Json> serve_quota_set(const Request& request) {
  const auto given = request.in.find("quota");
  const auto quota = auth::parse_quota(given == request.in.end() ? "" : given->dump());
  if (!quota) return request.refuse(Errc::validation_error, quota.error().context);
  VB_TRY(change(request, [&](AccountEntry& entry, User* user) -> Result<void> {
    if (user != nullptr && (quota->bytes || quota->objects)) {
      return request.refuse(Errc::validation_error,
                            "What is kept belongs to the account: a user's quota has requests_per_second and "
                            "bytes_per_second.");
    }
    auth::LimitsPtr& limits = user != nullptr ? user->limits : entry.limits;
    limits = auth::make_limits(*quota, limits);
    return {};
  }));
  return Json{{"name", request.whole_name()}, {"quota", Json::parse(auth::quota_text(*quota))}};
}

Result<Json> serve_quota_get(const Request& request) {
  VB_ASSIGN(const auto account, find_account(request));
  if (request.user.empty()) return Json{{"name", request.account}, {"quota", describe_quota(account->limits)}};
  VB_ASSIGN(const User* user, find_user(request, *account));
  return Json{{"name", request.whole_name()}, {"quota", describe_quota(user->limits)}};
}

Result<Json> serve_quota_rm(const Request& request) {
  VB_TRY(change(request, [&](AccountEntry& entry, User* user) -> Result<void> {
    (user != nullptr ? user->limits : entry.limits) = nullptr;
    return {};
  }));
  return Json::object();
}

struct Operation {
  std::string_view name;
  Result<Json> (*serve)(const Request&);
};
constexpr Operation operations[] = {
    {"user-add", serve_user_add},       {"user-list", serve_user_list},         {"user-rm", serve_user_rm},
    {"key-add", serve_key_add},         {"key-list", serve_key_list},           {"key-set", serve_key_set},
    {"key-rm", serve_key_rm},           {"policy-put", serve_policy_put},       {"policy-get", serve_policy_get},
    {"policy-rm", serve_policy_rm},     {"policy-attach", serve_policy_attach}, {"policy-detach", serve_policy_detach},
    {"policy-list", serve_policy_list}, {"quota-set", serve_quota_set},         {"quota-get", serve_quota_get},
    {"quota-rm", serve_quota_rm},
};

Result<Json> serve(auth::IdentityStore& store, const WallClock& clock, std::string_view name, std::string_view body,
                   const std::set<std::string>& bucket_owners, std::string& message, auth::AccountEntryPtr& marked) {
  const auto operation = std::ranges::find(operations, name, &Operation::name);
  if (operation == std::end(operations)) return fail(Errc::invalid_action, "There is no such admin call.");
  VB_ASSIGN(const Json in, read_admin_request(body));
  Request request{store, clock, in, bucket_owners, message, marked, {}, {}};
  if (name != "user-list") {
    VB_ASSIGN(const std::string whole, request.text("name", true));
    const size_t slash = whole.find('/');
    request.account = whole.substr(0, slash);
    if (slash != std::string::npos) request.user = whole.substr(slash + 1);
    if (request.account.empty() || (slash != std::string::npos && request.user.empty())) {
      return request.refuse(Errc::validation_error, "A name is ACCOUNT or ACCOUNT/USER.");
    }
  }
  return operation->serve(request);
}

}  // namespace

void write_admin_answer(const Json& json, s3::Response& response) {
  response.body = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  response.headers.emplace_back("content-type", "application/json");
  response.headers.emplace_back("cache-control", "no-store");
}

// Nesting is limited: the library recurses when it writes a value.
Result<Json> read_admin_request(std::string_view body) {
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > request_depth_max;
    return !deep;
  };
  Json in = Json::parse(body, watch, /*allow_exceptions=*/false);
  if (deep) return fail(Errc::validation_error, "The request is nested too deeply.");
  if (!in.is_object()) return fail(Errc::validation_error, "The request is not a JSON object.");
  return in;
}

bool removes_accounts(std::string_view call) { return call == "user-rm"; }

void write_admin_error(const Error& error, std::string_view message, s3::Response& response) {
  const s3::ErrorForm form = s3::error_form(error.code);
  response = {};
  response.status = form.status;
  response.error_code = form.code;
  const std::string_view text = message.empty() ? s3::error_message(error) : message;
  write_admin_answer({{"error", {{"code", form.code}, {"message", text}}}}, response);
}

void write_admin_outcome(const Result<Json>& out, std::string_view message, s3::Response& response) {
  if (!out) return write_admin_error(out.error(), message, response);
  write_admin_answer(*out, response);
}

auth::AccountEntryPtr answer_admin(auth::IdentityStore& store, const WallClock& clock, std::string_view call,
                                   std::string_view body, const std::set<std::string>& bucket_owners,
                                   s3::Response& response) {
  std::string message;
  auth::AccountEntryPtr marked;
  const auto out = serve(store, clock, call, body, bucket_owners, message, marked);
  write_admin_outcome(out, message, response);
  return marked;
}

// Its mark may be gone, or be another one: a call that came later removes the account then, or a server's start has
// kept it, and buckets that were listed under this mark say nothing any more.
void end_removal(auth::IdentityStore& store, const auth::AccountEntryPtr& marked,
                 const Result<std::set<std::string>>& bucket_owners, s3::Response& response) {
  constexpr int tries_max = 8;  // slow_down: another server has changed the accounts meanwhile
  const bool owns = !bucket_owners || bucket_owners->contains(marked->account->canonical_id);
  bool ours = true;
  const auto edit = [&](auth::AccountMap& accounts) -> Result<void> {
    const auto found = accounts.find(marked->account->id);
    ours = found == accounts.end() || found->second->removal == marked->removal;
    if (!ours) return fail(Errc::delete_conflict, "admin: the mark of the removal");
    if (found == accounts.end()) return {};
    if (!owns) {
      accounts.erase(found);
      return {};
    }
    auto kept = std::make_shared<AccountEntry>(*found->second);
    kept->removal.clear();
    found->second = std::move(kept);
    return {};
  };
  auto done = store.change(edit);
  for (int tries = 1; !done && done.error() == Errc::slow_down && tries < tries_max; ++tries) done = store.change(edit);
  if (done && !owns) return;
  if (done && bucket_owners) {
    write_admin_error({Errc::delete_conflict, 0, "admin"}, owns_buckets(marked->name), response);
  } else if (done) {
    write_admin_error(bucket_owners.error(), {}, response);
  } else if (!ours) {
    write_admin_error(done.error(), "Another call removes the account " + marked->name + ", or kept it.", response);
  } else {
    tell_removal_is_open(marked->name, done.error());
    write_admin_error(done.error(), {}, response);
  }
}

void tell_removal_is_open(std::string_view account, const Error& error) {
  log::error(
      "the removal of the account {} could not be ended, and its keys are refused: {}; `verbena user rm {}` ends it, "
      "and a start of the server keeps the account",
      account, describe(error), account);
}

}  // namespace verbena::iam
