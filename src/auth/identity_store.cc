#include "auth/identity_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "auth/bucket_token.h"
#include "auth/identifiers.h"
#include "auth/identity_file.h"
#include "auth/opened_tokens.h"
#include "auth/signing_key.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/fd.h"
#include "base/private_file.h"

namespace verbena::auth {
namespace {

// ARNs of configured vouchers: "arn:aws:iam::123456789012:ldap/directory".
constexpr std::string_view voucher_arn = "arn:aws:iam::";
constexpr size_t account_digits = 12;

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class T>
using ByText = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

Result<void> saved(const Result<void>& done) {
  if (done) return {};
  return fail(done.error().code, "identity file: write", done.error().sys);
}

// nullopt: no such file.
Result<std::optional<std::string>> read_file(const std::filesystem::path& path, uint64_t bytes_max) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file && errno == ENOENT) return std::nullopt;
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return fail(Errc::io_error, "identity file: open", errno);
  if (!S_ISREG(status.st_mode)) return fail(Errc::malformed, "identity file: not a regular file");
  if ((status.st_mode & 022) != 0) return fail(Errc::malformed, "identity file: others may write it; run chmod 600");
  if (static_cast<uint64_t>(status.st_size) > bytes_max) {
    return fail(Errc::too_large, "identity file: too large");
  }
  std::string text(static_cast<size_t>(status.st_size), '\0');
  for (size_t got = 0; got < text.size();) {
    const ssize_t n = ::read(file.get(), text.data() + got, text.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(Errc::io_error, "identity file: read", errno);
    got += static_cast<size_t>(n);
  }
  return text;
}

AccountMap first_accounts() {
  auto root = std::make_shared<AccountEntry>();
  root->account = root_account();
  root->name = root_account()->display_name;
  return {{root_account()->id, std::move(root)}};
}

// As in AWS: too short to be worth stealing, and clients open the next one in time.
constexpr int64_t bucket_session_s = 300;

// Distinguishes a key from a later one of the same name, and reveals nothing of its secret.
std::string tag_of(const Credentials& key) {
  return to_hex(as_bytes(hmac_sha256(as_bytes(key.secret_key), as_bytes("sessions of " + key.access_key))));
}

// Likewise for a session of a bucket; covers the key's user, too: one with another id is another user.
KeyTag short_tag_of(const AccessKey& key) {
  const std::string what = "sessions of buckets of " + key.credentials.access_key + " " + key.principal->user_id;
  const std::string digest = hmac_sha256(as_bytes(key.credentials.secret_key), as_bytes(what));
  KeyTag tag;
  std::memcpy(tag.data(), digest.data(), tag.size());
  return tag;
}

OpenedTokens& opened_by_this_thread() {
  thread_local const auto opened = std::make_unique<OpenedTokens>();
  return *opened;
}

uint64_t next_store_number() {
  static std::atomic<uint64_t> stores{0};
  return stores.fetch_add(1) + 1;
}

}  // namespace

struct Identities {
  struct Compiled {
    AccountEntryPtr entry;
    std::vector<std::pair<std::string, AccessKeyPtr>> keys;  // null for inactive ones
  };
  std::shared_ptr<const AccountMap> accounts;
  std::map<std::string, std::shared_ptr<const Compiled>> compiled;
  ByText<AccessKeyPtr> keys;
  ByText<AccountEntryPtr> by_canonical_id, by_email, by_name;
};

namespace {

void compile_keys(const std::vector<StoredKey>& stored, const PrincipalPtr& principal, Identities::Compiled& out) {
  const bool removed = !out.entry->removal.empty();
  for (const StoredKey& key : stored) {
    AccessKeyPtr made;
    if (key.active && !removed) {
      made = std::make_shared<const AccessKey>(AccessKey{{key.access_key, key.secret_key, ""}, principal, 0});
    }
    out.keys.emplace_back(key.access_key, std::move(made));
  }
}

// Keeps the consumed quota of reloaded accounts if the quota itself is unchanged.
void keep_limits(AccountMap& accounts, const AccountMap& before) {
  for (auto& [id, entry] : accounts) {
    const auto old = before.find(id);
    if (old == before.end()) continue;
    auto kept = std::make_shared<AccountEntry>(*entry);
    bool any = entry->limits != nullptr;
    if (any) kept->limits = make_limits(entry->limits->quota(), old->second->limits);
    for (auto& [name, user] : kept->users) {
      const auto old_user = old->second->users.find(name);
      if (user.limits == nullptr || old_user == old->second->users.end()) continue;
      user.limits = make_limits(user.limits->quota(), old_user->second.limits);
      any = true;
    }
    if (any) entry = std::move(kept);
  }
}

// An account whose limits are the same has the same object (keep_limits()).
void for_each_with_other_limits(const AccountMap& before, const AccountMap& after,
                                const IdentityStore::LimitsChanged& call) {
  const auto same_in = [](const AccountMap& accounts, const auto& one) {
    const auto other = accounts.find(one.first);
    if (other == accounts.end()) return false;
    return other->second == one.second || (other->second->limits == one.second->limits &&
                                           other->second->account->canonical_id == one.second->account->canonical_id);
  };
  std::set<std::string_view> changed;
  for (const auto& one : before) {
    if (!same_in(after, one)) changed.insert(one.second->account->canonical_id);
  }
  for (const auto& one : after) {
    if (!same_in(before, one)) changed.insert(one.second->account->canonical_id);
  }
  for (const std::string_view canonical_id : changed) call(canonical_id);
}

// For the directory an account that is being removed is gone.
AccountPtr unless_removed(const AccountEntryPtr& entry) {
  return entry == nullptr || !entry->removal.empty() ? nullptr : entry->account;
}

std::shared_ptr<const Identities::Compiled> compile_account(const AccountEntryPtr& entry) {
  auto out = std::make_shared<Identities::Compiled>();
  out->entry = entry;
  compile_keys(entry->keys, root_of(*entry), *out);
  for (const auto& [name, user] : entry->users) {
    if (!user.keys.empty()) compile_keys(user.keys, principal_of(*entry, user), *out);
  }
  return out;
}

}  // namespace

IdentityStore::IdentityStore(std::filesystem::path file, const KeyRing& keys, Credentials root, uint64_t file_bytes_max,
                             uint64_t account_max)
    : file_(std::move(file)),
      ring_(keys),
      file_bytes_max_(file_bytes_max),
      account_max_(account_max),
      root_(std::make_shared<const AccessKey>(AccessKey{root, superuser(), 0})),
      number_(next_store_number()) {}

IdentityStore::~IdentityStore() = default;

std::expected<std::unique_ptr<IdentityStore>, std::string> IdentityStore::open(const std::filesystem::path& file,
                                                                               const KeyRing& keys, Credentials root,
                                                                               uint64_t file_bytes_max,
                                                                               uint64_t account_max) {
  std::unique_ptr<IdentityStore> store(new IdentityStore(file, keys, std::move(root), file_bytes_max, account_max));
  if (auto loaded = store->load(); !loaded) return std::unexpected(loaded.error());
  return store;
}

std::expected<std::unique_ptr<IdentityStore>, std::string> IdentityStore::open(SharedText& shared, const KeyRing& keys,
                                                                               Credentials root) {
  std::unique_ptr<IdentityStore> store(
      new IdentityStore({}, keys, std::move(root), identity_file_bytes_max, account_bytes_max));
  store->shared_ = &shared;
  auto text = shared.read();
  auto taken = text ? store->take(*text) : Result<void>(std::unexpected(text.error()));
  if (!taken) {
    return std::unexpected("cannot read the accounts that all servers share, do they have the same master keys? " +
                           describe(taken.error()));
  }
  return store;
}

// Accounts whose entries are the same objects as those of the last call, where the text is the same.
Result<IdentitiesPtr> IdentityStore::compile_shared(const std::optional<std::string>& text) {
  if (!text) return compile(first_accounts(), nullptr);
  std::shared_ptr<const SharedSeen> seen;
  {
    const std::lock_guard lock(seen_mutex_);
    seen = seen_;
  }
  if (seen != nullptr && seen->text == *text) return seen->accounts;
  VB_ASSIGN(AccountMap accounts, decode_accounts(*text, ring_));
  if (!accounts.contains(std::string(root_account_id))) return fail(Errc::malformed, "identities: no root account");
  VB_ASSIGN(auto compiled, compile(std::move(accounts), nullptr));
  keep_shared(*text, compiled);
  return compiled;
}

void IdentityStore::keep_shared(std::string text, IdentitiesPtr accounts) {
  auto seen = std::make_shared<const SharedSeen>(SharedSeen{std::move(text), std::move(accounts)});
  const std::lock_guard lock(seen_mutex_);
  seen_.swap(seen);
}

Result<void> IdentityStore::take(const std::optional<std::string>& text) {
  VB_ASSIGN(const IdentitiesPtr seen, compile_shared(text));
  AccountMap accounts = *seen->accounts;
  if (const auto before = snapshot()) keep_limits(accounts, *before->accounts);
  VB_ASSIGN(auto next, compile(std::move(accounts), seen.get()));
  show(std::move(next));
  return {};
}

// Edits the shared text's current version, whatever this server has read so far. The change becomes visible when the
// notification arrives, as on the other servers: so the visible state never goes back.
Result<void> IdentityStore::change_shared(const std::function<Result<void>(AccountMap&)>& edit) {
  VB_ASSIGN(const auto before, shared_->read());
  VB_ASSIGN(const IdentitiesPtr were, compile_shared(before));
  AccountMap accounts = *were->accounts;
  VB_TRY(edit(accounts));
  VB_ASSIGN(const IdentitiesPtr next, compile(std::move(accounts), were.get()));
  VB_ASSIGN(const std::string text, encode(*next->accounts, *were->accounts));
  keep_shared(text, next);  // first: the notification comes from within replace()
  VB_ASSIGN(const bool replaced, shared_->replace(before, text));
  if (!replaced) return fail(Errc::slow_down, "Another server is changing the accounts.");
  return {};
}

std::expected<void, std::string> IdentityStore::load() {
  const auto cannot = [&](const Error& error) {
    return std::unexpected("cannot read the accounts in " + file_.string() + ": " + describe(error));
  };
  Result<std::optional<std::string>> text = std::nullopt;
  if (!file_.empty()) text = read_file(file_, file_bytes_max_);
  if (!text) return cannot(text.error());
  AccountMap accounts = first_accounts();
  if (*text) {
    auto decoded = decode_accounts(**text, ring_);
    if (!decoded) return cannot(decoded.error());
    accounts = std::move(*decoded);
  }
  if (!accounts.contains(std::string(root_account_id))) {
    return std::unexpected(file_.string() + " lacks the root account");
  }
  auto made = compile(std::move(accounts), nullptr);
  if (!made) return cannot(made.error());
  show(std::move(*made));
  return {};
}

Result<IdentitiesPtr> IdentityStore::compile(AccountMap accounts, const Identities* before) const {
  auto next = std::make_shared<Identities>();
  const auto add = [&](auto& index, const std::string& name, auto value) {
    return index.emplace(name, std::move(value)).second;
  };
  add(next->keys, root_->credentials.access_key, root_);
  for (const auto& [id, entry] : accounts) {
    const auto known = before != nullptr ? before->compiled.find(id) : next->compiled.end();
    const bool same = before != nullptr && known != before->compiled.end() && known->second->entry == entry;
    auto compiled = same ? known->second : compile_account(entry);
    for (const auto& [name, key] : compiled->keys) {
      if (!add(next->keys, name, key)) return fail(Errc::entity_already_exists, "The access key exists already.");
    }
    next->compiled.emplace(id, std::move(compiled));
    const Account& account = *entry->account;
    if (!add(next->by_name, entry->name, entry)) {
      return fail(Errc::entity_already_exists, "An account of this name exists already.");
    }
    if (!add(next->by_canonical_id, account.canonical_id, entry)) {
      return fail(Errc::entity_already_exists, "An account of this ID exists already.");
    }
    if (!account.email.empty() && !add(next->by_email, account.email, entry)) {
      return fail(Errc::entity_already_exists, "An account of this email address exists already.");
    }
  }
  next->accounts = std::make_shared<const AccountMap>(std::move(accounts));
  return next;
}

Result<std::string> IdentityStore::encode(const AccountMap& accounts, const AccountMap& before) {
  VB_ASSIGN(std::string text, texts_.encode(accounts, before, account_max_));
  // The next start reads no larger file.
  if (text.size() > file_bytes_max_) return fail(Errc::limit_exceeded, "The accounts take more room than they may.");
  return text;
}

Result<void> IdentityStore::save(const AccountMap& accounts, const AccountMap& before) {
  VB_ASSIGN(const std::string text, encode(accounts, before));
  if (file_.empty()) return {};
  return saved(put_private_file(file_, text));
}

IdentitiesPtr IdentityStore::snapshot() const {
  std::shared_lock lock(mutex_);
  return snapshot_;
}

void IdentityStore::when_limits_change(LimitsChanged limits_changed) {
  auto made = std::make_shared<const LimitsChanged>(std::move(limits_changed));
  const std::unique_lock lock(mutex_);
  limits_changed_ = std::move(made);
}

void IdentityStore::show(IdentitiesPtr next) {
  const IdentitiesPtr shown = next;
  std::shared_ptr<const LimitsChanged> limits_changed;
  {
    std::unique_lock lock(mutex_);
    snapshot_.swap(next);  // the old one is destroyed outside of the lock
    limits_changed = limits_changed_;
  }
  changed();
  if (limits_changed != nullptr && next != nullptr) {
    for_each_with_other_limits(*next->accounts, *shown->accounts, *limits_changed);
  }
}

Result<void> IdentityStore::change(const std::function<Result<void>(AccountMap&)>& edit) {
  std::lock_guard lock(change_mutex_);
  if (shared_ != nullptr) return change_shared(edit);
  const IdentitiesPtr before = snapshot();
  AccountMap accounts = *before->accounts;
  VB_TRY(edit(accounts));
  VB_ASSIGN(auto next, compile(std::move(accounts), before.get()));
  VB_TRY(save(*next->accounts, *before->accounts));
  // The file has the change, so it becomes visible even if it may not survive a crash.
  show(std::move(next));
  if (file_.empty()) return {};
  return saved(sync_folder_of(file_));
}

Result<void> IdentityStore::change_account(std::string_view id,
                                           const std::function<Result<void>(AccountEntry&)>& edit) {
  return change([&](AccountMap& accounts) -> Result<void> {
    const auto found = accounts.find(std::string(id));
    if (found == accounts.end()) return fail(Errc::no_such_entity, "The account does not exist.");
    auto copy = std::make_shared<AccountEntry>(*found->second);
    VB_TRY(edit(*copy));
    found->second = std::move(copy);
    return {};
  });
}

Result<size_t> IdentityStore::end_removals() {
  size_t ended = 0;
  const auto marked = [](const auto& one) { return !one.second->removal.empty(); };
  if (!std::ranges::any_of(*accounts(), marked)) return ended;
  VB_TRY(change([&](AccountMap& all) -> Result<void> {
    ended = 0;
    for (auto& one : all) {
      if (!marked(one)) continue;
      auto copy = std::make_shared<AccountEntry>(*one.second);
      copy->removal.clear();
      one.second = std::move(copy);
      ++ended;
    }
    return {};
  }));
  return ended;
}

std::shared_ptr<const AccountMap> IdentityStore::accounts() const { return snapshot()->accounts; }

AccountEntryPtr IdentityStore::account(std::string_view id) const {
  const auto all = accounts();
  const auto found = all->find(std::string(id));
  return found == all->end() ? nullptr : found->second;
}

AccountEntryPtr IdentityStore::account_named(std::string_view name) const {
  const auto now = snapshot();
  const auto found = now->by_name.find(name);
  return found == now->by_name.end() ? nullptr : found->second;
}

AccountPtr IdentityStore::by_canonical_id(std::string_view canonical_id) const {
  const auto now = snapshot();
  const auto found = now->by_canonical_id.find(canonical_id);
  return found == now->by_canonical_id.end() ? nullptr : unless_removed(found->second);
}

LimitsPtr IdentityStore::limits_of(std::string_view canonical_id) const {
  const auto now = snapshot();
  const auto found = now->by_canonical_id.find(canonical_id);
  return found == now->by_canonical_id.end() ? nullptr : found->second->limits;
}

AccountPtr IdentityStore::by_email(std::string_view email) const {
  std::string lower(email);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  const auto now = snapshot();
  const auto found = now->by_email.find(lower);
  return found == now->by_email.end() ? nullptr : unless_removed(found->second);
}

AccountPtr IdentityStore::by_id(std::string_view account_id) const { return unless_removed(account(account_id)); }

Result<AccessKeyPtr> IdentityStore::find(std::string_view access_key, std::string_view session_token,
                                         int64_t now_s) const {
  AccessKeyPtr found;
  {
    std::shared_lock lock(mutex_);
    const auto at = snapshot_->keys.find(access_key);
    if (at != snapshot_->keys.end()) found = at->second;
  }
  if (found == nullptr && !session_token.empty()) return find_session(access_key, session_token, now_s);
  if (found == nullptr) return fail(Errc::invalid_access_key_id, "auth: unknown access key");
  if (!session_token.empty()) return fail(Errc::invalid_token, "The access key takes no session token.");
  return found;
}

Result<AccessKeyPtr> IdentityStore::find_session(std::string_view access_key, std::string_view token,
                                                 int64_t now_s) const {
  // Before the snapshot is read: a change in between makes the cached entry stale at once.
  const uint64_t generation = this->generation();
  OpenedTokens& opened = opened_by_this_thread();
  AccessKeyPtr key = opened.find(number_, generation, token);
  if (key == nullptr) {
    VB_ASSIGN(key, open_token(token));
    opened.put(number_, generation, token, key);
  }
  if (key->credentials.access_key != access_key) {
    return fail(Errc::invalid_token, "The session token does not belong to this access key.");
  }
  if (key->expired(now_s)) return fail(Errc::expired_token, "auth: session token");
  return key;
}

Result<AccessKeyPtr> IdentityStore::open_token(std::string_view token) const {
  if (is_bucket_token(token)) return open_short(token);
  VB_ASSIGN(const SessionContents contents, open_session(ring_, token));
  return resolve(contents, token);
}

// The session's principal is the current owner of its key.
Result<AccessKeyPtr> IdentityStore::open_short(std::string_view token) const {
  VB_ASSIGN(MadeBucketToken made, open_bucket_token(ring_, token));
  BucketToken& contents = made.contents;
  const auto now = snapshot();
  const auto parent = now->keys.find(contents.parent_key);
  if (parent == now->keys.end() || parent->second == nullptr ||
      !equal_constant_time(short_tag_of(*parent->second), contents.parent_tag)) {
    return fail(Errc::invalid_access_key_id, "auth: the key that opened the session is gone");
  }
  Principal principal = *parent->second->principal;
  principal.token_issued_s = contents.expires_s - bucket_session_s;
  AccessKey key{std::move(made.credentials),
                std::make_shared<const Principal>(std::move(principal)),
                contents.expires_s,
                std::move(contents.parent_key),
                {},
                std::move(contents.limits),
                std::make_shared<LastSigningKey>()};
  return std::make_shared<const AccessKey>(std::move(key));
}

void IdentityStore::set_voucher(const std::string& name, std::set<std::string> tags) {
  {
    const std::unique_lock lock(mutex_);
    vouchers_.insert_or_assign(name, std::move(tags));
  }
  changed();
}

IdentityStore::Voucher IdentityStore::find_voucher(const SessionContents& contents) const {
  const size_t name_at = std::min(contents.parent_key.size(), voucher_arn.size() + account_digits + 1);
  const std::shared_lock lock(mutex_);
  const auto tags = vouchers_.find(std::string_view(contents.parent_key).substr(name_at));
  if (tags == vouchers_.end()) return Voucher::not_configured;
  return tags->second.contains(contents.parent_tag) ? Voucher::valid : Voucher::withdrawn;
}

bool IdentityStore::has_parent(const SessionContents& contents) const {
  const auto now = snapshot();
  if (contents.parent_key.starts_with(voucher_arn)) {  // no access key has a slash
    const Voucher voucher = find_voucher(contents);
    if (voucher != Voucher::not_configured) return voucher == Voucher::valid;
    const auto entry = now->accounts->find(contents.parent_key.substr(voucher_arn.size(), account_digits));
    const OpenIdProvider* const provider =
        entry == now->accounts->end() ? nullptr : find_provider(*entry->second, contents.parent_key);
    return provider != nullptr && provider_tag(*provider) == contents.parent_tag;
  }
  const auto found = now->keys.find(contents.parent_key);
  return found != now->keys.end() && found->second != nullptr &&
         equal_constant_time(as_bytes(tag_of(found->second->credentials)), as_bytes(contents.parent_tag));
}

// The session's subject, or its long-term key, may be gone or be another one of the same name.
Result<AccessKeyPtr> IdentityStore::resolve(const SessionContents& contents, std::string_view token) const {
  const auto gone = fail(Errc::invalid_access_key_id, "auth: the session's principal is gone");
  const AccountEntryPtr entry = account(contents.account_id);
  if (unless_removed(entry) == nullptr || !has_parent(contents)) return gone;
  Principal principal;
  if (contents.kind == Principal::Kind::account_root) {
    principal = *root_of(*entry);
  } else if (contents.kind == Principal::Kind::user) {
    const auto user = entry->users.find(contents.subject);
    if (user == entry->users.end() || user->second.id != contents.subject_id) return gone;
    principal = *principal_of(*entry, user->second);
  } else {
    const auto role = entry->roles.find(contents.subject);
    if (role == entry->roles.end() || role->second.id != contents.subject_id) return gone;
    principal = role_session(*entry, role->second, contents.session_name);
  }
  if (!contents.policy.empty()) {
    VB_ASSIGN(auto policy, parse_policy(contents.policy, PolicyKind::identity));
    principal.session.push_back(std::move(policy));
  }
  for (const std::string& arn : contents.policy_arns) {
    // Without a policy that limited it, the session would have more rights than it was given: so it has ended.
    const ManagedPolicy* policy = find_policy(*entry, arn);
    if (policy == nullptr) return gone;
    principal.session.push_back(policy->document.policy);
  }
  principal.token_issued_s = contents.issued_s;
  principal.attributes = joined(principal.attributes, contents.attributes);
  AccessKey key{{contents.access_key, contents.secret_key, std::string(token)},
                std::make_shared<const Principal>(std::move(principal)),
                contents.expires_s,
                contents.parent_key,
                contents.parent_tag,
                contents.limits,
                std::make_shared<LastSigningKey>()};
  return std::make_shared<const AccessKey>(std::move(key));
}

StoredKey IdentityStore::make_key(std::string access_key, std::string secret_key, int64_t now_s) const {
  StoredKey key;
  key.access_key = access_key.empty() ? make_access_key_id() : std::move(access_key);
  key.secret_key = secret_key.empty() ? make_secret_key() : std::move(secret_key);
  key.sealed = seal_secret(ring_, key.access_key, key.secret_key);
  key.created_s = now_s;
  return key;
}

Credentials IdentityStore::make_session(SessionContents& contents, const AccessKey& by, int64_t now_s) const {
  contents.access_key = make_temporary_key_id();
  contents.secret_key = make_secret_key();
  // A bucket session opened by a session counts as issued with that one, for policies that end old sessions.
  if (!contents.limits || contents.issued_s == 0) contents.issued_s = now_s;
  // The requesting session may have an end of its own, which applies to this one and its successors.
  if (!by.credentials.session_token.empty()) {
    const auto first = open_session(ring_, by.credentials.session_token);
    const int64_t end_s = first ? first->not_after_s : by.expires_s;
    if (end_s != 0) contents.not_after_s = contents.not_after_s == 0 ? end_s : std::min(contents.not_after_s, end_s);
  }
  if (contents.not_after_s != 0) contents.expires_s = std::min(contents.expires_s, contents.not_after_s);
  const bool lasting = by.parent_key.empty();
  contents.parent_key = lasting ? by.credentials.access_key : by.parent_key;
  contents.parent_tag = lasting ? tag_of(by.credentials) : by.parent_tag;
  return {contents.access_key, contents.secret_key, seal_session(ring_, contents)};
}

Result<CredentialStore::BucketCredentials> IdentityStore::open_bucket_session(const AccessKey& by,
                                                                              const BucketSession& limits,
                                                                              int64_t now_s) const {
  SessionContents contents;
  if (by.credentials.session_token.empty()) {
    const BucketToken wanted{by.credentials.access_key, short_tag_of(by), now_s + bucket_session_s, limits};
    if (auto made = make_bucket_token(ring_, wanted)) return BucketCredentials{std::move(*made), wanted.expires_s};
    return fail(Errc::invalid_argument, "auth: a session of such names");
  }
  // A session opened by a session: with that one's policies, and no longer.
  if (by.limits) return fail(Errc::access_denied, "auth: a session of a bucket opens no other one");
  VB_ASSIGN(contents, open_session(ring_, by.credentials.session_token));
  contents.expires_s = std::min(contents.expires_s, now_s + bucket_session_s);
  contents.limits = limits;
  Credentials made = make_session(contents, by, now_s);
  return BucketCredentials{std::move(made), contents.expires_s};
}

}  // namespace verbena::auth
