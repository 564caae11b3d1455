// The master keys, and encryption under them ("sealing") of secrets that are stored on disk (users' secret keys, the
// keys of encrypted objects).
//
// Key file: one line per key, "VERSION BASE64", 256 bits each; '#' begins a comment. The key with the highest version
// encrypts; all of them decrypt, so that older data stays readable. Losing the file means losing everything encrypted
// under it. A lost or wrong file must be detected at start and not at the first read: a second file, without secrets,
// lists the ids of all keys that were used here, and never loses one. Servers that share a store need the same keys:
// there the store has the list of ids, too, and keys that another server has used must be present. It also has each new
// key, sealed under the one before it (sealed_keys.h): a server that has that one takes the new one by itself.
//
// A key that is new to servers that share a store goes to all of them before any encrypts under it: first the sealed
// key is replaced in the store, which returns when every server has taken it; then the ids are. A key whose id is not
// there yet decrypts only. Strangers may be able to write in the store: what is there never makes a server go back to
// an older key, or open what is sealed under a key before the newest that it has used.
//
// A sealed text: format (1 byte) | id of the key (8) | nonce (24) | AES-256-GCM ciphertext | tag (16). The first half
// of the nonce derives a key from the master key, the second half is that key's nonce: so random nonces may be drawn
// without counting (NIST SP 800-38D allows 2^32 of 12 bytes under one key; there may be more objects).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "auth/master_key.h"
#include "auth/shared_text.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/secret.h"

namespace verbena::auth {

inline constexpr size_t sealed_overhead = 1 + 8 + 24 + 16;  // the extra bytes of a sealed text

class KeyRing {
 public:
  // `keys`: the key file. `known`: the ids file, in the data directory. If both are missing, makes a file with one
  // random key, mode 0600. The error is a sentence for the operator: unreadable, accessible to others, not a key file,
  // or a previously used key is missing.
  static std::expected<std::unique_ptr<KeyRing>, std::string> open(const std::filesystem::path& keys,
                                                                   const std::filesystem::path& known);
  // Likewise for a server that shares a store. If that has any ids, no file is made, and a missing key that cannot be
  // taken from the store is an error that names what to copy; nothing is written then. share() registers the ring's own
  // keys there, and must be called before anything is encrypted.
  struct Shared {
    SharedText& ids;     // of the keys that all servers have used; both outlive the ring
    SharedText& sealed;  // keys for servers that have older ones
  };
  static std::expected<std::unique_ptr<KeyRing>, std::string> open(const std::filesystem::path& keys,
                                                                   const std::filesystem::path& known, Shared shared);
  // Called when it is certain that the keys decrypt the store's contents. Blocks. An error: another server was first,
  // with other keys; a file that open() has made is removed again, if no server can have learned of its key.
  std::expected<void, std::string> share();
  // The two shared texts as they are now, whenever they may have changed: takes keys that other servers have added, and
  // writes the key file, again if it could not be written before. Returns whether the ring has changed; the error says
  // what was refused, or is missing. Does not ask the store, so that the thread that reads it may call this.
  std::expected<bool, std::string> take(const std::optional<std::string>& ids,
                                        const std::optional<std::string>& sealed);
  // A ring of one random key without a file: for tests.
  static std::unique_ptr<KeyRing> in_memory();
  ~KeyRing();
  KeyRing(const KeyRing&) = delete;

  // Reads the file again, after a rotation, and gives a new key to the servers that share the store. On an error the
  // same key seals, and a new one decrypts at most. Blocks.
  std::expected<void, std::string> reload();

  // `context` names the plain text ("user alice"): only unseal() with the same context decrypts it. Thread-safe.
  std::string seal(Bytes plain, std::string_view context) const;
  // key_unavailable: no such key here; corrupt_object: altered, or sealed for another context.
  Result<Secret> unseal(Bytes sealed, std::string_view context) const;

  // A derived key for `purpose`, which the ring can derive again: for authentication codes that it must recognize. `id`
  // is the master key's; its first bytes identify it.
  struct Derived {
    std::array<std::byte, 8> id;
    Secret key;
  };
  Derived derive(std::string_view purpose) const;
  // key_unavailable: no master key's id begins with these bytes.
  Result<Secret> derive_again(Bytes id_start, std::string_view purpose) const;

  size_t size() const;
  std::string newest_id() const;  // 16 hex digits

  // Adds a random key to the existing key file. Returns its id. For the command line.
  static std::expected<std::string, std::string> rotate(const std::filesystem::path& keys);

 private:
  using Keys = MasterKeys;
  struct Texts {
    std::optional<std::string> ids, sealed;
  };
  KeyRing(std::filesystem::path keys, std::filesystem::path known);
  static std::expected<Keys, std::string> load(const std::filesystem::path& path);
  static std::expected<void, std::string> save(const std::filesystem::path& path, const Keys& keys);
  std::expected<void, std::string> make(Keys& keys);
  std::expected<void, std::string> adopt(Keys keys);
  std::expected<void, std::string> read_used(const Keys& keys);
  std::expected<void, std::string> note_used();
  std::expected<void, std::string> add_to_file(const Keys& keys);
  std::expected<void, std::string> write_keys(const Keys& keys);
  std::set<std::string> used_with(const std::optional<std::string>& shared_ids) const;
  void set(Keys keys);
  void hold(const Keys& keys);
  Keys held() const;
  std::expected<Texts, std::string> read_shared() const;
  void take_shared(Keys& keys, const Texts& texts);
  std::expected<void, std::string> check_shared(const Keys& keys, const Texts& texts) const;
  std::expected<void, std::string> note_shared(Keys& keys);
  std::expected<bool, std::string> try_to_note(Keys& keys);
  void remove_made();
  std::shared_ptr<const MasterKey> newest() const;

  const std::filesystem::path path_, known_path_;
  std::optional<Shared> shared_;             // of servers that share a store
  bool made_ = false;                        // open() made the key file
  std::atomic<bool> sharing_{false};         // share() has been called
  std::mutex file_mutex_;                    // of the two files, and the following members; the first of the mutexes
  std::set<std::string> used_;               // ids under which was or may be sealed; the newest one seals; only grows
  std::set<std::string> noted_;              // those in the file
  bool unwritten_ = false;                   // a key that was taken is not in the file
  mutable std::shared_mutex mutex_;          // of the following members
  Keys keys_;                                // ascending versions
  std::shared_ptr<const MasterKey> newest_;  // under which is sealed
};

}  // namespace verbena::auth
