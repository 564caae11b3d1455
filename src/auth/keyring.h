// The master keys, and sealing under them: what is kept on disk and must not be read there (users' secret keys, the
// keys of encrypted objects) is sealed first.
//
// Key file: one line a key, "VERSION BASE64", 256 bits each; '#' begins a comment. The one with the highest version
// seals; every one opens, so that what an older one sealed stays readable. Losing the file is losing all that is
// sealed. That it is lost, or another server's, must be seen at start and not at the first read: the ids of the keys
// that were ever used stand in a second file, which holds no secret. Servers that share a store have to have the same
// keys: there the ids stand in the store as well, and what another one has used must be here.
//
// A sealed text: format (1 byte) | id of the key (8) | nonce (24) | AES-256-GCM ciphertext | tag (16). The first half
// of the nonce makes a key of its own from the master key, the second half is that key's nonce: so that random nonces
// may be drawn without counting (NIST SP 800-38D allows 2^32 of 12 bytes under one key; there may be more objects).
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

inline constexpr size_t sealed_overhead = 1 + 8 + 24 + 16;  // bytes that a sealed text has more

class KeyRing {
 public:
  // `keys`: the key file. `known`: the ids file, in the data directory. Where neither is there, a file with one random
  // key is made, mode 0600. The error is a sentence for people: unreadable, open to others, not a key file, or a key
  // missing that was used before.
  static std::expected<std::unique_ptr<KeyRing>, std::string> open(const std::filesystem::path& keys,
                                                                   const std::filesystem::path& known);
  // Likewise of a server that shares a store: `shared` has the ids that all servers have used there, and outlives the
  // ring. Where it has some, no file is made, and a key that is missing is an error that says what to copy; nothing is
  // written then. The ring's own ids are noted there by share(), which has to come before anything is sealed.
  static std::expected<std::unique_ptr<KeyRing>, std::string> open(const std::filesystem::path& keys,
                                                                   const std::filesystem::path& known,
                                                                   SharedText& shared);
  // To be called when it is known that the keys open what is in the store. Blocks. An error: another server was first,
  // with other keys; a file that open() has made is gone again.
  std::expected<void, std::string> share();
  // A ring of one random key that no file has: for tests.
  static std::unique_ptr<KeyRing> in_memory();
  ~KeyRing();
  KeyRing(const KeyRing&) = delete;

  // Reads the file again, after a rotation. On an error the keys stay as they were. Blocks.
  std::expected<void, std::string> reload();

  // `context` says what it is ("user alice"): only unseal() with the same context opens it. Thread-safe.
  std::string seal(Bytes plain, std::string_view context) const;
  // key_unavailable: no such key here; corrupt_object: not what was sealed, or for another context.
  Result<Secret> unseal(Bytes sealed, std::string_view context) const;

  // A key of its own for `purpose`, which the ring makes and makes again: for codes that it knows as its own. The id is
  // the master key's; its first bytes find it again.
  struct Derived {
    std::array<std::byte, 8> id;
    Secret key;
  };
  Derived derive(std::string_view purpose) const;
  // key_unavailable: no master key whose id begins so.
  Result<Secret> derive_again(Bytes id_start, std::string_view purpose) const;

  size_t size() const;
  std::string newest_id() const;  // 16 hex digits

  // Adds a random key to the key file, which must be there. Returns its id. For the command line.
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
  bool made_ = false;             // the key file, by open()
  bool sharing_ = false;          // share() has been called
  mutable std::shared_mutex mutex_;
  Keys keys_;  // ascending versions
};

}  // namespace verbena::auth
