#include "auth/keyring.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>

#include "auth/sealed_keys.h"
#include "base/aead.h"
#include "base/checksum.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/private_file.h"

namespace verbena::auth {
namespace {

constexpr size_t file_size_max = 64 * KiB;
constexpr size_t shared_ids_bytes_max = 64 * KiB;
constexpr std::string_view file_head =
    "# Verbena's master keys, the newest last. Keep a copy in another place: what a key has encrypted is lost with "
    "it.\n";
constexpr std::string_view known_head =
    "# The ids of the master keys that this data directory has used. No secret; the server checks its key file by "
    "it.\n";

constexpr int shares_tried_max = 16;  // while other servers register their ids

std::unexpected<std::string> cannot(const char* what, const std::filesystem::path& path) {
  return std::unexpected(std::string("cannot ") + what + " " + path.string() + ": " + std::strerror(errno));
}

std::expected<void, std::string> replace_file(const std::filesystem::path& path, std::string_view text) {
  const auto done = replace_private_file_alike(path, text);
  if (done) return {};
  errno = done.error().sys;
  return cannot(done.error().context, path);
}

// A mounted secret belongs to another user, and its group is how this one reads it.
mode_t not_set_of(const std::filesystem::path& key_file) {
  struct stat is{};
  const bool of_another = ::stat(key_file.c_str(), &is) == 0 && is.st_uid != ::geteuid();
  return of_another ? not_for_others : not_for_any_other;
}

// nullopt: no such file.
std::expected<std::optional<Secret>, std::string> read_file(const std::filesystem::path& path, bool is_secret) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown) && !unknown) return std::nullopt;
  auto read = read_secret_file(path, file_size_max, is_secret ? not_set_of(path) : for_whomever);
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

std::set<std::string> ids_of(const MasterKeys& keys) {
  std::set<std::string> ids;
  for (const auto& key : keys) ids.insert(to_hex(key->id));
  return ids;
}

bool is_id(std::string_view line) {
  return line.size() == 2 * MasterKey::id_size && line.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::set<std::string> ids_in(const std::optional<std::string>& text) {
  std::set<std::string> ids;
  each_line(text.value_or(""), [&](std::string_view line) {
    if (is_id(line)) ids.emplace(line);
    return true;
  });
  return ids;
}

// The ids, and the lines that mean something to others (store/rados/rows/formats.h).
std::string with_ids(const std::set<std::string>& ids, const std::optional<std::string>& text) {
  std::string lines;
  for (const auto& id : ids) lines += id + "\n";
  each_line(text.value_or(""), [&](std::string_view line) {
    if (!is_id(line)) lines.append(line).append("\n");
    return true;
  });
  return lines;
}

// Adds the keys that are not there; one whose version another key has gets a later one.
void merge_keys(MasterKeys& keys, const MasterKeys& more) {
  const std::set<std::string> ids = ids_of(keys);
  for (const auto& key : more) {
    if (ids.contains(to_hex(key->id)) || keys.size() == master_keys_max) continue;
    const bool free = std::ranges::none_of(keys, [&](const auto& one) { return one->version == key->version; });
    if (!free && keys.back()->version >= key_version_max) continue;
    keys.push_back(free ? key : std::make_shared<const MasterKey>(keys.back()->version + 1, key->key.copy()));
    std::ranges::sort(keys, {}, [](const auto& one) { return one->version; });
  }
}

// Keeps a key file from two writers at once: a server that takes a key, and `rotate`. Empty: no such file.
Fd lock_file(const std::filesystem::path& path) {
  for (;;) {
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!file || ::flock(file.get(), LOCK_EX) != 0) return {};
    struct stat held{}, named{};
    if (::fstat(file.get(), &held) != 0 || ::stat(path.c_str(), &named) != 0) return {};
    if (held.st_ino == named.st_ino && held.st_dev == named.st_dev) return file;  // else it was replaced meanwhile
  }
}

}  // namespace

KeyRing::KeyRing(std::filesystem::path keys, std::filesystem::path known)
    : path_(std::move(keys)), known_path_(std::move(known)) {}
KeyRing::~KeyRing() = default;

std::unique_ptr<KeyRing> KeyRing::in_memory() {
  std::unique_ptr<KeyRing> ring(new KeyRing({}, {}));
  ring->set({std::make_shared<const MasterKey>(1, Secret::random(aead_key_size))});
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
    if (!raw || raw->size() != aead_key_size || keys.size() == master_keys_max) return false;
    keys.push_back(std::make_shared<const MasterKey>(version, Secret(*raw)));
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

// The newest key that was used seals: what other servers have noted or lost since makes it no older one.
void KeyRing::set(Keys keys) {
  std::unique_lock lock(mutex_);
  newest_ = keys.back();
  for (const auto& key : keys) {
    if (used_.contains(to_hex(key->id))) newest_ = key;
  }
  keys_ = std::move(keys);
}

// The keys decrypt from now on.
void KeyRing::hold(const Keys& keys) {
  const std::lock_guard lock(file_mutex_);
  Keys all = keys;
  merge_keys(all, held());
  set(std::move(all));
}

KeyRing::Keys KeyRing::held() const {
  std::shared_lock lock(mutex_);
  return keys_;
}

// The ids file. Of a key file that comes from another server without one, the newest key counts as used.
std::expected<void, std::string> KeyRing::read_used(const Keys& keys) {
  auto known = read_file(known_path_, false);
  if (!known) return std::unexpected(known.error());
  const std::lock_guard lock(file_mutex_);
  noted_.clear();
  if (*known) noted_ = ids_in(std::string((*known)->text()));
  used_.insert(noted_.begin(), noted_.end());
  if (used_.empty() && !keys.empty()) used_.insert(to_hex(keys.back()->id));
  return {};
}

std::expected<void, std::string> KeyRing::note_used() {
  if (noted_ == used_) return {};
  std::string text(known_head);
  for (const auto& id : used_) text += id + "\n";
  auto done = replace_file(known_path_, text);
  if (done) noted_ = used_;
  return done;
}

// Takes the keys if no previously used one is missing, and registers the new ones: in the store that servers share
// first, so that no server starts without a key under which this one encrypts. Until then it has used none of them.
std::expected<void, std::string> KeyRing::adopt(Keys keys) {
  if (auto read = read_used(keys); !read) return read;
  if (sharing_) {
    const auto texts = read_shared();
    if (!texts) return std::unexpected(texts.error());
    take_shared(keys, *texts);
  }
  const std::set<std::string> ids = ids_of(keys);
  std::string missing;
  {
    const std::lock_guard lock(file_mutex_);
    for (const std::string& id : noted_) {
      if (!ids.contains(id)) missing = id;
    }
  }
  if (!missing.empty()) {
    return std::unexpected(path_.string() + " does not hold master key " + missing + ", which " + known_path_.string() +
                           " says was used: what it has encrypted could not be read. Restore the key file");
  }
  if (sharing_) {
    hold(keys);
    if (auto done = note_shared(keys); !done) return done;
  }
  const std::lock_guard lock(file_mutex_);
  std::expected<void, std::string> done;
  if (sharing_ || !shared_) {
    used_.merge(ids_of(keys));
    done = note_used();
    if (!done && !sharing_) return done;
  }
  merge_keys(keys, held());
  set(std::move(keys));
  return done;
}

// Keys that are in the file and not among these stay there: they were added by a rotation that was not read yet.
std::expected<void, std::string> KeyRing::add_to_file(const Keys& keys) {
  const Fd held = lock_file(path_);
  auto there = load(path_);
  if (!there) return std::unexpected(there.error());
  const std::set<std::string> ids = ids_of(keys);
  Keys all = keys;
  bool same = true;
  for (auto& key : *there) {
    if (!ids.contains(to_hex(key->id))) {
      if (all.size() == master_keys_max || all.back()->version >= key_version_max) {
        return std::unexpected(path_.string() + " is full");
      }
      all.push_back(std::make_shared<const MasterKey>(all.back()->version + 1, key->key.copy()));
    }
  }
  for (const auto& key : all) {
    same &= std::ranges::any_of(*there, [&](const auto& one) { return one->id == key->id; });
  }
  return same ? std::expected<void, std::string>() : save(path_, all);
}

std::expected<void, std::string> KeyRing::write_keys(const Keys& keys) {
  auto added = add_to_file(keys);
  unwritten_ = !added;
  return added;
}

std::expected<void, std::string> KeyRing::make(Keys& keys) {
  std::error_code ignored;
  if (std::filesystem::exists(known_path_, ignored)) {
    return std::unexpected(
        "the key file " + path_.string() + " is missing, but " + known_path_.string() +
        " says that keys were used: what they have encrypted could not be read. Restore the key file");
  }
  keys.push_back(std::make_shared<const MasterKey>(1, Secret::random(aead_key_size)));
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
                                                                   const std::filesystem::path& known, Shared shared) {
  std::unique_ptr<KeyRing> ring(new KeyRing(keys, known));
  ring->shared_.emplace(shared);
  auto loaded = load(keys);
  if (!loaded) return std::unexpected(loaded.error());
  if (auto read = ring->read_used(*loaded); !read) return std::unexpected(read.error());
  auto texts = ring->read_shared();
  if (!texts) return std::unexpected(texts.error());
  ring->take_shared(*loaded, *texts);
  if (auto right = ring->check_shared(*loaded, *texts); !right) return std::unexpected(right.error());
  if (loaded->empty()) {
    if (auto made = ring->make(*loaded); !made) return std::unexpected(made.error());
  }
  if (auto done = ring->adopt(std::move(*loaded)); !done) return std::unexpected(done.error());
  return ring;
}

std::expected<KeyRing::Texts, std::string> KeyRing::read_shared() const {
  auto ids = shared_->ids.read();
  auto sealed = shared_->sealed.read();
  if (ids && ids->value_or("").size() > shared_ids_bytes_max) {
    return std::unexpected("the list of master keys that the servers share is longer than it can be");
  }
  if (ids && sealed) return Texts{std::move(*ids), std::move(*sealed)};
  return std::unexpected("the servers' master keys: " + describe(ids ? sealed.error() : ids.error()));
}

// The store's ids are those that servers have used, as long as only servers write there: alone they take none away.
std::set<std::string> KeyRing::used_with(const std::optional<std::string>& shared_ids) const {
  std::set<std::string> used = ids_in(shared_ids);
  used.insert(used_.begin(), used_.end());
  return used;
}

// A file that cannot be written is no reason to go without a key: it is tried again.
void KeyRing::take_shared(Keys& keys, const Texts& texts) {
  const std::lock_guard lock(file_mutex_);
  std::string trouble;
  const size_t taken = take_sealed_keys(keys, texts.sealed.value_or(""), used_with(texts.ids), trouble);
  if (!trouble.empty()) log::error("master keys: {}", trouble);
  if (taken == 0) return;
  log::info("master keys: {} taken that another server has added, the newest is {}", taken, to_hex(keys.back()->id));
  if (auto added = write_keys(keys); !added) log::warn("master keys: {}", added.error());
}

// Checks that all keys used by any server are present.
std::expected<void, std::string> KeyRing::check_shared(const Keys& keys, const Texts& texts) const {
  const std::set<std::string> ids = ids_of(keys);
  std::string missing;
  for (const std::string& id : ids_in(texts.ids)) {
    if (missing.empty() && !ids.contains(id)) missing = log::printable(id);
  }
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

// Keys that other servers register meanwhile are taken, or must be present.
std::expected<void, std::string> KeyRing::note_shared(Keys& keys) {
  std::expected<bool, std::string> noted = false;
  for (int i = 0; i < shares_tried_max && noted && !*noted; ++i) noted = try_to_note(keys);
  if (!noted) return std::unexpected(noted.error());
  if (!*noted) return std::unexpected("the servers' master keys change all the time");
  return {};
}

// False: the texts were changed meanwhile. Each replacement returns when all servers have taken the text.
std::expected<bool, std::string> KeyRing::try_to_note(Keys& keys) {
  const auto texts = read_shared();
  if (!texts) return std::unexpected(texts.error());
  take_shared(keys, *texts);
  if (auto right = check_shared(keys, *texts); !right) return std::unexpected(right.error());
  const std::string ids = with_ids(ids_of(keys), texts->ids);
  const std::string sealed = with_sealed_keys(keys, texts->sealed.value_or(""));
  const auto failed = [](const Error& error, const char* what) {
    return std::unexpected("the servers' master keys: " + describe(error) + what);
  };
  if (!sealed.empty() && (sealed != texts->sealed || ids != texts->ids)) {
    const auto told = shared_->sealed.replace(texts->sealed, sealed);
    if (!told) return failed(told.error(), " Nothing is encrypted under a new one yet");
    if (!*told) return false;
  }
  if (ids == texts->ids) return true;
  const auto noted = shared_->ids.replace(texts->ids, ids);
  if (!noted) return failed(noted.error(), " A new one may be in use already");
  return *noted;
}

std::expected<bool, std::string> KeyRing::take(const std::optional<std::string>& ids,
                                               const std::optional<std::string>& sealed) {
  const std::lock_guard lock(file_mutex_);
  const bool too_long = ids.value_or("").size() > shared_ids_bytes_max;
  const Texts texts{too_long ? std::nullopt : ids, sealed};
  const auto before = newest();
  Keys keys = held();
  std::string trouble;
  const bool taken = take_sealed_keys(keys, sealed.value_or(""), used_with(texts.ids), trouble) != 0;
  if (taken || unwritten_) {
    if (auto added = write_keys(keys); !added) trouble = added.error();
  }
  const std::set<std::string> shared = ids_in(texts.ids);
  if (sharing_ && !std::ranges::includes(shared, used_)) {
    trouble =
        "the list of master keys that the servers share lacks some that were used: it is damaged or an old one. "
        "They stay in use here, and the next server that starts, or gets SIGHUP, lists them again";
  }
  std::ranges::set_intersection(shared, ids_of(keys), std::inserter(used_, used_.end()));
  if (sharing_) {
    if (auto done = note_used(); !done) trouble = done.error();
  }
  const auto complete = check_shared(keys, texts);
  set(std::move(keys));
  if (!complete) return std::unexpected(complete.error());
  if (!trouble.empty()) return std::unexpected(std::move(trouble));
  return taken || newest() != before;
}

std::expected<void, std::string> KeyRing::share() {
  Keys keys = held();
  auto noted = note_shared(keys);
  if (noted) {
    sharing_ = true;
    return adopt(std::move(keys));
  }
  if (made_) remove_made();
  return noted;
}

// A change of the shared ids may have been made although it failed. Then another server may seal under the key already.
void KeyRing::remove_made() {
  const auto texts = read_shared();
  const std::set<std::string> own = ids_of(held());
  const auto is_own = [&](const std::string& id) { return own.contains(id); };
  if (!texts || std::ranges::any_of(ids_in(texts->ids), is_own)) {
    log::warn("master keys: {} stays: its key may be one of the servers' by now", path_.string());
    return;
  }
  std::error_code ignored;
  std::filesystem::remove(known_path_, ignored);
  std::filesystem::remove(path_, ignored);
}

// Keys that only the memory has are written, too.
std::expected<void, std::string> KeyRing::reload() {
  auto loaded = load(path_);
  if (!loaded) return std::unexpected(loaded.error());
  if (loaded->empty()) return std::unexpected("the key file " + path_.string() + " is missing");
  {
    const std::lock_guard lock(file_mutex_);
    if (unwritten_) {
      Keys all = held();
      merge_keys(all, *loaded);
      *loaded = std::move(all);
      if (auto written = write_keys(*loaded); !written) log::warn("master keys: {}", written.error());
    }
  }
  return adopt(std::move(*loaded));
}

std::expected<std::string, std::string> KeyRing::rotate(const std::filesystem::path& path) {
  const Fd held = lock_file(path);
  auto loaded = load(path);
  if (!loaded) return std::unexpected(loaded.error());
  if (loaded->empty()) return std::unexpected("there is no key file " + path.string());
  if (loaded->size() == master_keys_max || loaded->back()->version >= key_version_max) {
    return std::unexpected(path.string() + " is full");
  }
  loaded->push_back(std::make_shared<const MasterKey>(loaded->back()->version + 1, Secret::random(aead_key_size)));
  if (auto saved = save(path, *loaded); !saved) return std::unexpected(saved.error());
  return to_hex(loaded->back()->id);
}

std::shared_ptr<const MasterKey> KeyRing::newest() const {
  std::shared_lock lock(mutex_);
  return newest_;
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
  std::shared_ptr<const MasterKey> key;
  {
    std::shared_lock lock(mutex_);
    const auto starts = [&](const auto& one) {
      return std::ranges::equal(Bytes(one->id).first(id_start.size()), id_start);
    };
    const auto found = id_start.size() > MasterKey::id_size ? keys_.end() : std::ranges::find_if(keys_, starts);
    if (found == keys_.end()) return fail(Errc::key_unavailable, "derive: no such master key");
    key = *found;
  }
  return key->derived(purpose);
}

std::string KeyRing::seal(Bytes plain, std::string_view context) const { return newest()->seal(plain, context); }

Result<Secret> KeyRing::unseal(Bytes sealed, std::string_view context) const {
  const auto id = sealing_id(sealed);
  if (!id) return fail(Errc::corrupt_object, "sealed: shape");
  std::shared_ptr<const MasterKey> key;
  {
    std::shared_lock lock(mutex_);
    const auto found = std::ranges::find_if(keys_, [&](const auto& one) { return one->id == *id; });
    if (found == keys_.end()) return fail(Errc::key_unavailable, "sealed: no such master key");
    key = *found;
  }
  return key->unseal(sealed, context);
}

}  // namespace verbena::auth
