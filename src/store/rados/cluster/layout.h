// The layout of a store in its two pools. Rows keep their names ("duty", "k", "g") whatever the code calls them,
// because older servers read them.
//
// Index pool, per namespace:
//   root         omap: "b" bucket's name -> id; "x" id -> a removed bucket that is still to be swept, and
//                whether it ever had a name; "next" -> the next id of buckets and of
//                incarnations; "u" id -> a bucket of that id may be given a name; "f" -> another one whenever a name
//                becomes free. xattr "formats": servers that know formats have run (formats.h). Every server
//                watches it.
//   servers      omap: "era" -> the era; "s" server -> the oldest era that it has readers of (garbage.h); "duty" -> the
//                leader's last sign (leader_lease.h); "k" lease holder -> "live" or "broken" (read_leases.h);
//                "format" -> the format that the servers write, "v" server -> those that it knows (formats.h);
//                "master" -> ids of the servers' master keys, "master-keys" -> those, sealed (key_ids.h)
//   k.HOLDER     watched by the server that is this lease holder: its leases are recalled here. xattr "n": how many
//                leases it holds, as it was some seconds ago
//   events       omap, of all queues of events (event_rows.h): "e" queue 00 bucket id size -> an event that outlived
//                its bucket, or concerns no object; "h" queue 00 bucket -> new ones were left in its tablets; "w" queue
//                00 bucket -> how many wait
//   ends         omap: bucket id -> objects of the bucket have, or had, an end (end_rows.h)
//   accounts     users and their keys, sealed; xattr "h": SHA-256 of it, "w": the tokens of its last changes
//   b.ID         a bucket. xattr "e": its epoch. omap: "r" its record, "t" lowest key -> tablet, "c" name -> document,
//                "p" what happens to it as a whole (removing, splitting, moving a key), and whose doing that is,
//                "w" the tokens of its last changes (fate.h), "g" tablet -> the one that it was joined with (joiner.h)
//   t.ID.N       a tablet: the rows of the keys from one on up to another. xattr "e": the bucket's epoch; every call
//                that reads or changes rows is guarded by it
// Data pool:
//   d.BLOB.N     the Nth 4 MiB of a blob. xattr "c": the CRC32C of each block of 64 KiB
//
// A tablet's omap, K standing for the key with its zero bytes escaped:
//   "o" key -> head             "v" K 00 00 ~id -> head of another version     "u" K 00 00 upload -> upload
//   "n" K 00 00 -> null version "x" K 00 00 row -> parts of uploads and of objects
//   "g" K 00 00 -> version token: the last id, a random token that each change of any of the key's rows replaces,
//                  the key's read leases (read_leases.h), and of a key whose object went, when that was
//   "i" K 00 00 ~blob -> CRC32C and bytes of a small blob
//   "!" blob -> bytes that are to be removed when they have no reader any more
//   "$" server -> what that server's changes made of the tablet's usage (batcher.h); of server 0: what others' did that
//                are gone. "$j" server tablet -> likewise of a tablet that was joined with this one
//   "e" queue 00 id size -> an event of a key's change: in the tablet that the key lay in
//   "f" the tablet's fence, and the greatest id of the version tokens that were swept (tombstones.h)
//   "w" server -> the token of the last of that server's calls that was made here (fate.h)
//   "z" time key -> version token: the key's last object, version or upload may have gone then, and its version token
//                goes after a while if nothing is left (tombstones.h)
//   "t" time key -> the key's current object ends then (store/ends.h)
//   "m" the last key that was moved here from another tablet: whose doing that was
//   "r" token, "a" time token -> renames that were done (logic/keys.h), in the tablet that the source lay in
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/blobs.h"
#include "store/catalogue.h"

namespace verbena::store::rados {

inline constexpr std::string_view root_object = "root", servers_object = "servers", accounts_object = "accounts",
                                  events_object = "events", ends_object = "ends";
inline constexpr const char* epoch_attribute = "e";
inline constexpr const char* checksums_attribute = "c";
inline constexpr const char* leases_attribute = "n";
inline constexpr uint64_t stripe_size = 4 * MiB;
inline constexpr uint64_t block_size = 64 * KiB;
inline constexpr uint64_t inline_max = 16 * KiB;               // bytes of a blob that is stored with the rows
inline constexpr std::string_view tablet_letters = "ginouvx";  // letters of the rows of a key

std::string bucket_object(uint64_t bucket);
std::string tablet_object(uint64_t bucket, uint64_t number);
std::string stripe_object(uint64_t blob, uint64_t stripe);
std::optional<std::pair<uint64_t, uint64_t>> parse_stripe(std::string_view object);  // blob, stripe
std::string holder_object(uint64_t holder);
std::string holder_row(uint64_t holder);
inline constexpr std::string_view live_holder = "live", broken_holder = "broken";    // values of the row
std::optional<std::pair<uint64_t, uint64_t>> parse_tablet(std::string_view object);  // bucket, number
inline uint64_t stripes_of(uint64_t size) { return (size + stripe_size - 1) / stripe_size; }

// Conversion of logic's row keys to a tablet's: keys that start with `row` start with `stored` there and are equal
// behind it.
struct Family {
  std::string row, stored;
  std::string to_stored(std::string_view key) const { return stored + std::string(key.substr(row.size())); }
  std::string to_row(std::string_view key) const { return row + std::string(key.substr(stored.size())); }
};
Family family(const Place& place, Table table, std::string_view key);

std::string version_token_row(std::string_view key);
std::string versions_prefix(std::string_view key);  // of all versions but the current one
std::string inline_prefix(std::string_view key);
std::string inline_row(std::string_view key, uint64_t blob);
inline constexpr const char* moved_row = "m";
std::string dead_row(uint64_t blob);
std::optional<uint64_t> parse_dead_row(std::string_view row);
std::string usage_row(uint64_t incarnation);
std::optional<uint64_t> parse_usage_row(std::string_view row);
// The same of a tablet that was joined with this one.
std::string joined_usage_row(uint64_t incarnation, uint64_t tablet);
struct JoinedUsage {
  uint64_t incarnation = 0, tablet = 0;
};
std::optional<JoinedUsage> parse_joined_usage_row(std::string_view row);
std::string joined_row(uint64_t tablet);
std::optional<uint64_t> parse_joined_row(std::string_view row);
inline constexpr const char* fence_row = "f";
std::string receipt_row(uint64_t incarnation);
std::optional<uint64_t> parse_receipt_row(std::string_view row);
std::string tombstone_row(int64_t us, std::string_view key);
struct Tombstone {
  int64_t us = 0;
  std::string key;
};
std::optional<Tombstone> parse_tombstone_row(std::string_view row);
// Ends are ordered by time, so the ends of a range of keys lie among those of others.
inline constexpr std::string_view ends_prefix = "t";
struct StoredEnd {
  int64_t us = 0;
  std::string key;
};
std::string stored_end_row(int64_t us, std::string_view key);
std::optional<StoredEnd> parse_stored_end_row(std::string_view row);
// The first row of that letter for `key` or a later key.
std::string first_row(char letter, std::string_view key);

// One server's lease to serve this key from memory. No two leases are equal.
struct ReadLease {
  uint64_t holder = 0;
  uint64_t nonce = 0;
  bool operator==(const ReadLease&) const = default;
};

struct VersionToken {
  static constexpr size_t leases_max = 8;
  uint64_t last_id = 0;
  uint64_t token = 0;
  std::vector<ReadLease> leases{};
  int64_t left_us = 0;  // Transaction::leave_us(); 0: not set
  size_t room() const { return leases_max - leases.size() - (left_us == 0 ? 0 : 1); }
};
std::string encode(const VersionToken& version_token);
Result<VersionToken> decode_version_token(std::string_view bytes);  // an empty text: there was none yet

// The guard of changes of keys without a version token: the fence is unchanged if no version token of the tablet has
// been swept since it was read.
struct Fence {
  uint64_t number = 0;
  uint64_t last_id = 0;  // the greatest id of swept version tokens
};
std::string encode(const Fence& fence);
Result<Fence> decode_fence(std::string_view bytes);  // an empty text: none was swept yet

std::string encode_inline(Bytes bytes);
Result<std::string> decode_inline(std::string_view value);  // corrupt_object

}  // namespace verbena::store::rados
