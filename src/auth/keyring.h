// The master keys, and encryption under them ("sealing") of secrets that are stored on disk (users' secret keys, the
// keys of encrypted objects).
//
// Key file: one line per key, "VERSION BASE64", 256 bits each; '#' begins a comment. The key with the highest version
// encrypts; all of them decrypt, so that older data stays readable. Losing the file means losing everything encrypted
// under it. A lost or wrong file must be detected at start and not at the first read: a second file, without secrets,
// lists the ids of all keys ever used. Servers that share a store need the same keys: there the store has the list of
// ids, too, and keys that another server has used must be present.
//
// A sealed text: format (1 byte) | id of the key (8) | nonce (24) | AES-256-GCM ciphertext | tag (16). The first half
// of the nonce derives a key from the master key, the second half is that key's nonce: so random nonces may be drawn
// without counting (NIST SP 800-38D allows 2^32 of 12 bytes under one key; there may be more objects).
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <memory>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

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
  // Likewise for a server that shares a store: `shared` has the ids that all servers have used there, and outlives the
  // ring. If it has any, no file is made, and a missing key is an error that names what to copy; nothing is written
  // then. share() registers the ring's own ids there, and must be called before anything is encrypted.
  static std::expected<std::unique_ptr<KeyRing>, std::string> open(const std::filesystem::path& keys,
                                                                   const std::filesystem::path& known,
                                                                   SharedText& shared);
  // Called when it is certain that the keys decrypt the store's contents. Blocks. An error: another server was first,
  // with other keys; a file that open() has made is removed again.
  std::expected<void, std::string> share();
  // A ring of one random key without a file: for tests.
  static std::unique_ptr<KeyRing> in_memory();
  ~KeyRing();
  KeyRing(const KeyRing&) = delete;

  // Reads the file again, after a rotation. On an error the keys stay as they were. Blocks.
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
  struct Key;
  using Keys = std::vector<std::shared_ptr<const Key>>;
  KeyRing(std::filesystem::path keys, std::filesystem::path known);
  static std::expected<Keys, std::string> load(const std::filesystem::path& path);
  static std::set<std::string> ids_of(const Keys& keys);
  static std::expected<void, std::string> save(const std::filesystem::path& path, const Keys& keys);
  std::expected<void, std::string> make(Keys& keys);
  std::expected<void, std::string> adopt(Keys keys);
  std::expected<void, std::string> check_shared(const Keys& keys) const;
  std::expected<void, std::string> note_shared(const Keys& keys);
  std::shared_ptr<const Key> newest() const;

  const std::filesystem::path path_, known_path_;
  SharedText* shared_ = nullptr;  // of servers that share a store
  bool made_ = false;             // open() made the key file
  bool sharing_ = false;          // share() has been called
  mutable std::shared_mutex mutex_;
  Keys keys_;  // ascending versions
};

}  // namespace verbena::auth
