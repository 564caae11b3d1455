// The accounts of a server: one file in the data directory, and an immutable snapshot of it in memory that every
// look-up reads.
//
// A change edits a copy, writes the whole file beside the old one, makes it durable, renames it, and only then becomes
// visible: an acknowledged change survives a crash, and a crash leaves the old file or the new one.
#pragma once

#include <expected>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>

#include "auth/identity.h"
#include "auth/identity_file.h"
#include "auth/keyring.h"
#include "auth/session_token.h"
#include "auth/shared_text.h"

namespace verbena::auth {

struct Identities;
using IdentitiesPtr = std::shared_ptr<const Identities>;

// Thread-safe. Blocking calls are marked.
class IdentityStore final : public CredentialStore, public AccountDirectory {
 public:
  // `file` may be missing; an empty name: the accounts are in memory only. `root` is the superuser's key; `keys`
  // outlives the store. The error is a sentence for the operator: the file cannot be read, is corrupt, or these keys do
  // not decrypt its secrets. No change makes the file larger than `file_bytes_max`, and no larger one is read. No
  // change of an account makes its part of the file larger than `account_max`.
  static std::expected<std::unique_ptr<IdentityStore>, std::string> open(
      const std::filesystem::path& file, const KeyRing& keys, Credentials root,
      uint64_t file_bytes_max = identity_file_bytes_max, uint64_t account_max = account_bytes_max);
  // Likewise for accounts that several servers change; `shared` outlives the store, and its replace() notifies every
  // server of the change (take()), including this one. Of two concurrent changes one fails with slow_down.
  static std::expected<std::unique_ptr<IdentityStore>, std::string> open(SharedText& shared, const KeyRing& keys,
                                                                         Credentials root);
  ~IdentityStore() override;
  // Sets a trusted voucher of the server's configuration, besides providers registered by accounts: `name` is
  // "ldap/NAME" or "certificate/NAME", as in ARNs, `tags` are those of the current configuration. Sessions of a voucher
  // whose tag is not among them have ended.
  void set_voucher(const std::string& name, std::set<std::string> tags);
  // Sets what is called with an account's canonical id when its limits have changed, or it came or went: after that is
  // visible, and before the change is acknowledged. Thread-safe itself, and calls nothing here.
  using LimitsChanged = std::function<void(std::string_view canonical_id)>;
  void when_limits_change(LimitsChanged limits_changed);
  // Replaces the accounts by the shared text. Errors leave everything as it was.
  Result<void> take(const std::optional<std::string>& text);

  Result<AccessKeyPtr> find(std::string_view access_key, std::string_view session_token, int64_t now_s) const override;
  // Valid for five minutes, or as long as the requesting session. A session opened by a long-term key has a short token
  // (bucket_token.h).
  Result<BucketCredentials> open_bucket_session(const AccessKey& by, const BucketSession& limits,
                                                int64_t now_s) const override;
  AccountPtr by_canonical_id(std::string_view canonical_id) const override;
  AccountPtr by_email(std::string_view email) const override;
  AccountPtr by_id(std::string_view account_id) const override;
  LimitsPtr limits_of(std::string_view canonical_id) const override;

  // As of now; never null, and the root account is always among them.
  std::shared_ptr<const AccountMap> accounts() const;
  AccountEntryPtr account(std::string_view id) const;
  AccountEntryPtr account_named(std::string_view name) const;

  // Blocks. One change at a time, all or nothing: an error of `edit` leaves everything as it was. entity_already_exists
  // when the result has an access key, account name, canonical id or email twice; limit_exceeded when the file, or an
  // account's part of it, would get too large; io_error, insufficient_storage: after an io_error the change may be
  // visible, but not yet durable.
  Result<void> change(const std::function<Result<void>(AccountMap&)>& edit);
  // change() of one account. no_such_entity when it is gone.
  Result<void> change_account(std::string_view id, const std::function<Result<void>(AccountEntry&)>& edit);

  // Blocks. For a start: ends the removals of accounts that a server began and did not end; the accounts stay. How many
  // there were. A removal in progress on another server then finds its mark gone, and removes nothing.
  Result<size_t> end_removals();

  // A key for a user's list: random where an argument is empty.
  StoredKey make_key(std::string access_key, std::string secret_key, int64_t now_s) const;
  // Completes `contents` and encrypts it: credentials with their session token. `by`: the requesting key; the session
  // ends with it, or with its long-term key.
  Credentials make_session(SessionContents& contents, const AccessKey& by, int64_t now_s) const;

 private:
  IdentityStore(std::filesystem::path file, const KeyRing& keys, Credentials root, uint64_t file_bytes_max,
                uint64_t account_max);
  std::expected<void, std::string> load();
  IdentitiesPtr snapshot() const;
  void show(IdentitiesPtr next);
  Result<IdentitiesPtr> compile(AccountMap accounts, const Identities* before) const;
  Result<std::string> encode(const AccountMap& accounts, const AccountMap& before);
  Result<void> save(const AccountMap& accounts, const AccountMap& before);
  Result<void> change_shared(const std::function<Result<void>(AccountMap&)>& edit);
  Result<IdentitiesPtr> compile_shared(const std::optional<std::string>& text);
  void keep_shared(std::string text, IdentitiesPtr accounts);
  Result<AccessKeyPtr> find_session(std::string_view access_key, std::string_view token, int64_t now_s) const;
  // A session's authenticator as the server's own configuration has it.
  enum class Voucher : uint8_t { not_configured, valid, withdrawn };
  Voucher find_voucher(const SessionContents& contents) const;
  bool has_parent(const SessionContents& contents) const;
  Result<AccessKeyPtr> resolve(const SessionContents& contents, std::string_view token) const;
  Result<AccessKeyPtr> open_token(std::string_view token) const;
  Result<AccessKeyPtr> open_short(std::string_view token) const;

  const std::filesystem::path file_;
  SharedText* shared_ = nullptr;
  const KeyRing& ring_;
  const uint64_t file_bytes_max_, account_max_;
  const AccessKeyPtr root_;
  std::mutex change_mutex_;
  AccountTexts texts_;  // guarded by change_mutex_
  // The shared text that was seen last, with what it says: a change and its notification parse only a text that another
  // server has made. Guarded by seen_mutex_, which is held to copy or to compare.
  struct SharedSeen {
    std::string text;
    IdentitiesPtr accounts;
  };
  std::mutex seen_mutex_;
  std::shared_ptr<const SharedSeen> seen_;
  mutable std::shared_mutex mutex_;  // guards the following: held to copy a pointer, or for one look-up
  std::map<std::string, std::set<std::string>, std::less<>> vouchers_;
  IdentitiesPtr snapshot_;
  std::shared_ptr<const LimitsChanged> limits_changed_;
  const uint64_t number_;  // among the stores of this process
};

}  // namespace verbena::auth
