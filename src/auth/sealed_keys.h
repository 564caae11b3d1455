// Master keys on their way between servers that share a store: each is sealed under the key before it, so that a server
// that has the old key takes the new one, and nothing else reads it or makes one that a server takes.
//
// The text: one line per key, "ID BASE64", the id of the key and its sealed form; a key may have several lines, under
// several other keys. Sealed are the key's version (4 bytes, big-endian) and the key, for a context that has its id.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "auth/master_key.h"

namespace verbena::auth {

inline constexpr size_t master_keys_max = 256;
inline constexpr size_t sealed_keys_bytes_max = 128 * KiB;
inline constexpr uint32_t key_version_max = UINT32_MAX - 1;
inline constexpr uint32_t key_version_step_max = master_keys_max;  // from a key to one that is sealed under it

// Adds to `keys` those of the text that are sealed under the newest of them that was used (`used`: the ids), or under
// one after it, so that an older key that became known makes no new ones. Strangers may write the shared list of ids:
// `used` must have those that the server itself has noted, too. Returns how many. Removes none. A key whose version
// another key has is taken only if that one was never used, which then gets a later version. `trouble`: a sentence if
// something was refused.
size_t take_sealed_keys(MasterKeys& keys, std::string_view text, const std::set<std::string>& used,
                        std::string& trouble);

// The text with each of `keys` sealed under the one before it, where it was not sealed under one of them yet. Lines
// that are damaged, or have another version for a key, are gone.
std::string with_sealed_keys(const MasterKeys& keys, std::string_view text);

}  // namespace verbena::auth
