#include "auth/sealed_keys.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/checksum.h"
#include "base/log.h"

namespace verbena::auth {
namespace {

constexpr size_t version_size = 4;

struct Line {
  std::string id;  // of the key
  std::string_view text;
  std::vector<std::byte> sealed;
};

std::string key_context(std::string_view id) { return "master key " + std::string(id); }

const MasterKey* find_key(const MasterKeys& keys, const MasterKey::Id& id) {
  const auto found = std::ranges::find(keys, id, [](const auto& key) { return key->id; });
  return found == keys.end() ? nullptr : found->get();
}

bool has_id(const MasterKeys& keys, std::string_view id) {
  return std::ranges::any_of(keys, [&](const auto& key) { return to_hex(key->id) == id; });
}

std::optional<Line> parse_line(std::string_view text) {
  const size_t space = text.find(' ');
  if (space != 2 * MasterKey::id_size) return std::nullopt;
  auto sealed = from_base64(text.substr(space + 1));
  if (!sealed || !sealing_id(*sealed)) return std::nullopt;
  return Line{std::string(text.substr(0, space)), text, std::move(*sealed)};
}

// `damaged`: how many lines are none.
std::vector<Line> parse_lines(std::string_view text, size_t& damaged) {
  std::vector<Line> lines;
  damaged = 0;
  if (text.size() > sealed_keys_bytes_max) {
    ++damaged;
    return lines;
  }
  while (!text.empty()) {
    const size_t cut = std::min(text.find('\n'), text.size());
    auto line = parse_line(text.substr(0, cut));
    text.remove_prefix(std::min(cut + 1, text.size()));
    if (line) {
      lines.push_back(std::move(*line));
    } else {
      ++damaged;
    }
  }
  return lines;
}

// Whether a key of this version may come after the other one. What leaps further would leave no versions to later keys.
bool follows(uint32_t version, uint32_t before) {
  return version > before && version - before <= key_version_step_max && version <= key_version_max;
}

// nullptr: not a key, or not that one.
std::shared_ptr<const MasterKey> open_line(const MasterKey& under, const Line& line) {
  const auto plain = under.unseal(line.sealed, key_context(line.id));
  if (!plain || plain->size() != version_size + aead_key_size) return nullptr;
  const Bytes bytes = plain->bytes();
  uint32_t version = 0;
  for (size_t i = 0; i < version_size; ++i) version = version << 8 | std::to_integer<uint32_t>(bytes[i]);
  auto key = std::make_shared<const MasterKey>(version, Secret(bytes.subspan(version_size)));
  return follows(version, under.version) && to_hex(key->id) == line.id ? key : nullptr;
}

// The version of the newest of the keys that were used: a key under an older one is not taken.
uint32_t newest_used(const MasterKeys& keys, const std::set<std::string>& used) {
  uint32_t newest = 0;
  for (const auto& key : keys) {
    if (used.contains(to_hex(key->id))) newest = key->version;
  }
  return newest;
}

bool has_another_version(const MasterKeys& keys, const MasterKey& key) {
  const MasterKey* own = find_key(keys, key.id);
  return own != nullptr && own->version != key.version;
}

// Empty: no server would take it, after a version that leaps too far.
std::string seal_line(const MasterKey& under, const MasterKey& key) {
  if (!follows(key.version, under.version)) return {};
  Secret plain(version_size + aead_key_size);
  const auto out = plain.writable();
  for (size_t i = 0; i < version_size; ++i) out[i] = static_cast<std::byte>(key.version >> (24 - 8 * i));
  std::ranges::copy(key.key.bytes(), out.begin() + version_size);
  const std::string id = to_hex(key.id);
  return id + " " + to_base64(as_bytes(under.seal(plain.bytes(), key_context(id)))) + "\n";
}

// False: a used key has that version.
bool make_room(MasterKeys& keys, uint32_t version, const std::set<std::string>& used) {
  const auto same = std::ranges::find(keys, version, [](const auto& key) { return key->version; });
  if (same == keys.end()) return true;
  if (used.contains(to_hex((*same)->id)) || keys.back()->version >= key_version_max) return false;
  auto later = std::make_shared<const MasterKey>(keys.back()->version + 1, Secret((*same)->key.bytes()));
  keys.erase(same);
  keys.push_back(std::move(later));
  return true;
}

}  // namespace

size_t take_sealed_keys(MasterKeys& keys, std::string_view text, const std::set<std::string>& used,
                        std::string& trouble) {
  size_t damaged = 0, taken = 0;
  std::vector<Line> lines = parse_lines(text, damaged);
  if (damaged != 0) trouble = "the master keys that the servers have sealed for each other are damaged";
  const uint32_t newest = newest_used(keys, used);
  for (bool more = true; more;) {  // a key may open the next one
    more = false;
    for (Line& line : lines) {
      const MasterKey* under = line.sealed.empty() ? nullptr : find_key(keys, *sealing_id(line.sealed));
      if (under == nullptr || under->version < newest || has_id(keys, line.id)) continue;
      auto key = open_line(*under, line);
      line.sealed.clear();
      if (key == nullptr) {
        trouble = "master key " + log::printable(line.id) + " is not taken: what is stored as that key was changed";
      } else if (keys.size() >= master_keys_max || !make_room(keys, key->version, used)) {
        trouble = "master key " + line.id + " is not taken: another key has its version, " +
                  std::to_string(key->version) + ", or there are too many. Copy the key file of another server";
      } else {
        keys.push_back(std::move(key));
        std::ranges::sort(keys, {}, [](const auto& one) { return one->version; });
        ++taken;
        more = true;
      }
    }
  }
  return taken;
}

std::string with_sealed_keys(const MasterKeys& keys, std::string_view text) {
  size_t damaged = 0;
  std::string kept;
  std::set<std::string> sealed;
  for (const Line& line : parse_lines(text, damaged)) {
    const MasterKey* under = find_key(keys, *sealing_id(line.sealed));
    const auto opened = under == nullptr ? nullptr : open_line(*under, line);
    if (under != nullptr && (opened == nullptr || has_another_version(keys, *opened))) continue;
    if (under != nullptr) sealed.insert(line.id);
    kept.append(line.text).append("\n");
  }
  std::string own;
  for (size_t i = 1; i < keys.size(); ++i) {
    if (!sealed.contains(to_hex(keys[i]->id))) own += seal_line(*keys[i - 1], *keys[i]);
  }
  // Lines under keys that this server does not have give way.
  if (kept.size() + own.size() > sealed_keys_bytes_max) {
    kept.clear();
    own.clear();
    for (size_t i = 1; i < keys.size(); ++i) own += seal_line(*keys[i - 1], *keys[i]);
  }
  return kept + own;
}

}  // namespace verbena::auth
