#include "auth/keyring.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>

#include "base/aead.h"
#include "base/checksum.h"
#include "base/private_file.h"

namespace verbena::auth {
namespace {

constexpr std::byte sealed_format{1};
constexpr size_t id_size = 8, half_nonce = aead_nonce_size;
constexpr size_t file_size_max = 64 * KiB;
constexpr size_t keys_max = 256;
constexpr std::string_view file_head =
    "# Verbena's master keys, the newest last. Keep a copy in another place: what a key has encrypted is lost with "
    "it.\n";
constexpr std::string_view known_head =
    "# The ids of the master keys that this data directory has used. No secret; the server checks its key file by "
    "it.\n";

constexpr int shares_tried_max = 16;  // while other servers register their ids

using Id = std::array<std::byte, id_size>;

std::unexpected<std::string> cannot(const char* what, const std::filesystem::path& path) {
  return std::unexpected(std::string("cannot ") + what + " " + path.string() + ": " + std::strerror(errno));
}

std::expected<void, std::string> replace_file(const std::filesystem::path& path, std::string_view text) {
  const auto done = replace_private_file(path, text);
  if (done) return {};
  errno = done.error().sys;
  return cannot(done.error().context, path);
}

// nullopt: no such file.
std::expected<std::optional<Secret>, std::string> read_file(const std::filesystem::path& path, bool is_secret) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown) && !unknown) return std::nullopt;
  auto read = read_secret_file(path, file_size_max, is_secret ? not_for_any_other : for_whomever);
  if (!read) return std::unexpected(path.string() + " " + read.error());
  return std::move(*read);
}

// Calls each(line) for every line that is neither empty nor a comment, until it returns false.
template <class Each>
bool each_line(std::string_view text, Each each) {
  while (!text.empty()) {
    const size_t cut = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, cut);
    text.remove_prefix(std::min(cut + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && line.front() != '#' && !each(line)) return false;
  }
  return true;
}

}  // namespace

struct KeyRing::Key {
  uint32_t version = 0;
  Secret key;
  Id id{};  // derived from the key, so that no other key has the id of a lost one

  Key(uint32_t v, Secret k) : version(v), key(std::move(k)) {
    const std::string digest = hmac_sha256(key.bytes(), as_bytes("verbena master key id"));
    std::memcpy(id.data(), digest.data(), id.size());
  }
  // The cipher for all nonces with this first half: its key is derived from the master key and the half.
  Aead aead(Bytes first_half) const {
    std::string purpose("verbena seal ");
    purpose += as_text(first_half);
    std::string derived = hmac_sha256(key.bytes(), as_bytes(purpose));
    Aead made(as_bytes(derived));
    wipe(derived);
    return made;
  }
  Secret derived(std::string_view purpose) const {
    std::string text = hmac_sha256(key.bytes(), as_bytes("verbena derive " + std::string(purpose)));
    Secret made(as_bytes(text));
    wipe(text);
    return made;
  }
};

KeyRing::KeyRing(std::filesystem::path keys, std::filesystem::path known)
    : path_(std::move(keys)), known_path_(std::move(known)) {}
KeyRing::~KeyRing() = default;

std::unique_ptr<KeyRing> KeyRing::in_memory() {
  std::unique_ptr<KeyRing> ring(new KeyRing({}, {}));
  ring->keys_.push_back(std::make_shared<const Key>(1, Secret::random(aead_key_size)));
  return ring;
}

std::expected<KeyRing::Keys, std::string> KeyRing::load(const std::filesystem::path& path) {
  auto text = read_file(path, true);
  if (!text) return std::unexpected(text.error());
  Keys keys;
  if (!*text) return keys;
  const bool sound = each_line((*text)->text(), [&](std::string_view line) {
    uint32_t version = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), version);
    if (error != std::errc() || version == 0 || end == line.data() + line.size() || *end != ' ') return false;
    auto raw = from_base64(line.substr(static_cast<size_t>(end + 1 - line.data())));
    if (!raw || raw->size() != aead_key_size || keys.size() == keys_max) return false;
    keys.push_back(std::make_shared<const Key>(version, Secret(*raw)));
    OPENSSL_cleanse(raw->data(), raw->size());
    return true;
  });
  std::ranges::sort(keys, {}, [](const auto& key) { return key->version; });
  const auto same = std::ranges::adjacent_find(keys, {}, [](const auto& key) { return key->version; });
  if (!sound || keys.empty() || same != keys.end()) {
    return std::unexpected(path.string() +
                           " is not a key file: each line wants a version of its own, a space and 32 "
                           "bytes in base64");
  }
  return keys;
}

std::expected<void, std::string> KeyRing::save(const std::filesystem::path& path, const Keys& keys) {
  std::string text(file_head);
  text.reserve(text.size() + keys.size() * 64 + 64);  // so that no copy of a key remains in a smaller buffer
  for (const auto& key : keys) {
    std::string line = to_base64(key->key.bytes());
    text.append(std::to_string(key->version)).append(" ").append(line).append("\n");
    wipe(line);
  }
  auto done = replace_file(path, text);
  wipe(text);
  return done;
}

std::set<std::string> KeyRing::ids_of(const Keys& keys) {
  std::set<std::string> ids;
  for (const auto& key : keys) ids.insert(to_hex(key->id));
  return ids;
}

// Takes the keys if no previously used one is missing, and registers the new ones: in the store that servers share
// first, so that no server starts without a key under which this one encrypts.
std::expected<void, std::string> KeyRing::adopt(Keys keys) {
  const std::set<std::string> ids = ids_of(keys);
  auto known = read_file(known_path_, false);
  if (!known) return std::unexpected(known.error());
  std::set<std::string> noted;
  std::string missing;
  if (*known) {
    each_line((*known)->text(), [&](std::string_view line) {
      noted.emplace(line);
      if (!ids.contains(std::string(line))) missing = line;
      return true;
    });
  }
  if (!missing.empty()) {
    return std::unexpected(path_.string() + " does not hold master key " + missing + ", which " + known_path_.string() +
                           " says was used: what it has encrypted could not be read. Restore the key file");
  }
  if (sharing_) {
    if (auto done = note_shared(keys); !done) return done;
  }
  if (noted != ids) {
    std::string text(known_head);
    for (const auto& id : ids) text += id + "\n";
    if (auto done = replace_file(known_path_, text); !done) return done;
  }
  std::unique_lock lock(mutex_);
  keys_ = std::move(keys);
  return {};
}

std::expected<void, std::string> KeyRing::make(Keys& keys) {
  std::error_code ignored;
  if (std::filesystem::exists(known_path_, ignored)) {
    return std::unexpected(
        "the key file " + path_.string() + " is missing, but " + known_path_.string() +
        " says that keys were used: what they have encrypted could not be read. Restore the key file");
  }
  keys.push_back(std::make_shared<const Key>(1, Secret::random(aead_key_size)));
  made_ = true;
  return save(path_, keys);
}

std::expected<std::unique_ptr<KeyRing>, std::string> KeyRing::open(const std::filesystem::path& keys,
                                                                   const std::filesystem::path& known) {
  std::unique_ptr<KeyRing> ring(new KeyRing(keys, known));
  auto loaded = load(keys);
  if (!loaded) return std::unexpected(loaded.error());
  if (loaded->empty()) {
    if (auto made = ring->make(*loaded); !made) return std::unexpected(made.error());
  }
  if (auto done = ring->adopt(std::move(*loaded)); !done) return std::unexpected(done.error());
  return ring;
}

std::expected<std::unique_ptr<KeyRing>, std::string> KeyRing::open(const std::filesystem::path& keys,
                                                                   const std::filesystem::path& known,
                                                                   SharedText& shared) {
  std::unique_ptr<KeyRing> ring(new KeyRing(keys, known));
  ring->shared_ = &shared;
  auto loaded = load(keys);
  if (!loaded) return std::unexpected(loaded.error());
  if (auto right = ring->check_shared(*loaded); !right) return std::unexpected(right.error());
  if (loaded->empty()) {
    if (auto made = ring->make(*loaded); !made) return std::unexpected(made.error());
  }
  if (auto done = ring->adopt(std::move(*loaded)); !done) return std::unexpected(done.error());
  return ring;
}

// Checks that all keys used by any server are present.
std::expected<void, std::string> KeyRing::check_shared(const Keys& keys) const {
  const auto noted = shared_->read();
  if (!noted) return std::unexpected("the ids of the servers' master keys: " + describe(noted.error()));
  const std::set<std::string> ids = ids_of(keys);
  std::string missing;
  each_line(noted->value_or(""), [&](std::string_view line) {
    if (!ids.contains(std::string(line))) missing = line;
    return missing.empty();
  });
  if (missing.empty()) return {};
  std::string what = path_.string() + (keys.empty() ? " is not there" : " does not hold master key " + missing) +
                     ", and the servers of this cluster seal under master key " + missing +
                     ": copy the key file of one of them (its DIR/master.keys, or encryption.key_file) to " +
                     path_.string();
  if (!keys.empty()) {
    what += ", and remove " + known_path_.string() +
            ". If anything was sealed under the keys that are there now, add them to the copy instead, and give that "
            "file to all servers";
  }
  return std::unexpected(std::move(what));
}

// Ids that other servers register meanwhile must be present, too.
std::expected<void, std::string> KeyRing::note_shared(const Keys& keys) {
  for (int i = 0; i < shares_tried_max; ++i) {
    if (auto right = check_shared(keys); !right) return right;
    const auto before = shared_->read();
    if (!before) return std::unexpected("the ids of the servers' master keys: " + describe(before.error()));
    std::string text;
    for (const auto& id : ids_of(keys)) text += id + "\n";
    if (*before == text) return {};
    const auto noted = shared_->replace(*before, text);
    if (!noted) return std::unexpected("the ids of the servers' master keys: " + describe(noted.error()));
    if (*noted) return {};
  }
  return std::unexpected("the ids of the servers' master keys change all the time");
}

std::expected<void, std::string> KeyRing::share() {
  Keys keys;
  {
    std::shared_lock lock(mutex_);
    keys = keys_;
  }
  auto noted = note_shared(keys);
  if (noted) {
    sharing_ = true;
  } else if (made_) {  // nothing was encrypted under it
    std::error_code ignored;
    std::filesystem::remove(known_path_, ignored);
    std::filesystem::remove(path_, ignored);
  }
  return noted;
}

std::expected<void, std::string> KeyRing::reload() {
  auto loaded = load(path_);
  if (!loaded) return std::unexpected(loaded.error());
  if (loaded->empty()) return std::unexpected("the key file " + path_.string() + " is missing");
  return adopt(std::move(*loaded));
}

std::expected<std::string, std::string> KeyRing::rotate(const std::filesystem::path& path) {
  auto loaded = load(path);
  if (!loaded) return std::unexpected(loaded.error());
  if (loaded->empty()) return std::unexpected("there is no key file " + path.string());
  if (loaded->size() == keys_max) return std::unexpected(path.string() + " is full");
  loaded->push_back(std::make_shared<const Key>(loaded->back()->version + 1, Secret::random(aead_key_size)));
  if (auto saved = save(path, *loaded); !saved) return std::unexpected(saved.error());
  return to_hex(loaded->back()->id);
}

std::shared_ptr<const KeyRing::Key> KeyRing::newest() const {
  std::shared_lock lock(mutex_);
  return keys_.back();
}

size_t KeyRing::size() const {
  std::shared_lock lock(mutex_);
  return keys_.size();
}

std::string KeyRing::newest_id() const { return to_hex(newest()->id); }

KeyRing::Derived KeyRing::derive(std::string_view purpose) const {
  const auto key = newest();
  return {key->id, key->derived(purpose)};
}

Result<Secret> KeyRing::derive_again(Bytes id_start, std::string_view purpose) const {
  std::shared_ptr<const Key> key;
  {
    std::shared_lock lock(mutex_);
    const auto starts = [&](const auto& one) {
      return std::ranges::equal(Bytes(one->id).first(id_start.size()), id_start);
    };
    const auto found = id_start.size() > id_size ? keys_.end() : std::ranges::find_if(keys_, starts);
    if (found == keys_.end()) return fail(Errc::key_unavailable, "derive: no such master key");
    key = *found;
  }
  return key->derived(purpose);
}

std::string KeyRing::seal(Bytes plain, std::string_view context) const {
  const auto key = newest();
  std::string out(sealed_overhead + plain.size(), '\0');
  auto* at = reinterpret_cast<std::byte*>(out.data());
  *at++ = sealed_format;
  at = std::ranges::copy(key->id, at).out;
  fill_random({at, 2 * half_nonce});
  const Bytes first_half(at, half_nonce);
  AeadNonce nonce;
  std::memcpy(nonce.data(), at + half_nonce, nonce.size());
  at += 2 * half_nonce;
  AeadTag tag;
  key->aead(first_half).seal(nonce, as_bytes(context), plain, at, tag);
  std::ranges::copy(tag, at + plain.size());
  return out;
}

Result<Secret> KeyRing::unseal(Bytes sealed, std::string_view context) const {
  if (sealed.size() < sealed_overhead || sealed[0] != sealed_format) return fail(Errc::corrupt_object, "sealed: shape");
  const Bytes id = sealed.subspan(1, id_size);
  std::shared_ptr<const Key> key;
  {
    std::shared_lock lock(mutex_);
    const auto found = std::ranges::find_if(keys_, [&](const auto& one) { return std::ranges::equal(one->id, id); });
    if (found == keys_.end()) return fail(Errc::key_unavailable, "sealed: no such master key");
    key = *found;
  }
  const Bytes first_half = sealed.subspan(1 + id_size, half_nonce);
  AeadNonce nonce;
  std::ranges::copy(sealed.subspan(1 + id_size + half_nonce, nonce.size()), nonce.begin());
  const size_t size = sealed.size() - sealed_overhead;
  Secret plain(size);
  if (!key->aead(first_half)
           .open(nonce, as_bytes(context), sealed.subspan(1 + id_size + 2 * half_nonce, size),
                 sealed.last(aead_tag_size), plain.writable().data())) {
    return fail(Errc::corrupt_object, "sealed: changed, or of another context");
  }
  return plain;
}

}  // namespace verbena::auth
