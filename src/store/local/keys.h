// How index keys are laid out. Fixed-width numbers are big-endian, so byte order is numeric order; a bucket's id comes
// first and has eight bytes, so the keys of one bucket lie together and sort by their own bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace verbena::store::local {

// One RocksDB column family each; one write-ahead log for all.
enum class Family : uint8_t {
  meta = 0,      // epoch, buckets, their documents, volumes' clean marks, dead blobs
  objects = 1,   // heads of current objects
  uploads = 2,   // uploads, their parts, the part lists of finished objects, where null versions are
  segments = 3,  // where a blob's bytes lie, and their CRCs
  extents = 4,   // the space map: which blob owns an extent of a volume
  in_index = 5,  // small blobs' bytes
  versions = 6,  // heads that are not a key's current object: older versions, and delete markers
};
inline constexpr size_t family_count = 7;

namespace keys {

// meta: one letter says which
std::string epoch();
std::string scrub();
std::string bucket_prefix();
std::string bucket(std::string_view name);
std::string document_prefix();
std::string document_prefix(uint64_t bucket);
std::string document(uint64_t bucket, std::string_view name);
std::optional<std::pair<uint64_t, std::string>> parse_document(std::string_view key);  // bucket, name
std::string volume_clean(uint64_t volume);
std::string dead_prefix();
std::string dead(uint64_t blob);
std::optional<uint64_t> parse_dead(std::string_view key);
std::string removed_bucket_prefix();
std::string removed_bucket(uint64_t bucket);  // what it leaves behind is still being taken away
std::optional<uint64_t> parse_removed_bucket(std::string_view key);

// objects: bucket id, key
std::string object_prefix(uint64_t bucket);
std::string object(uint64_t bucket, std::string_view key);
inline constexpr size_t object_prefix_size = 8;

// uploads
std::string upload_prefix(uint64_t bucket);
// The key's zero bytes are escaped (00 -> 00 ff) and its end is 00 00, which keeps byte order.
std::string upload_key_prefix(uint64_t bucket, std::string_view key);  // up to where keys differ: no end mark
std::string upload(uint64_t bucket, std::string_view key, std::string_view upload_id);
std::optional<std::pair<std::string, std::string>> parse_upload(std::string_view index_key);  // key, upload id
std::string part_prefix(uint64_t upload);
std::string part(uint64_t upload, int number);
std::string object_parts(uint64_t object);
std::string null_version(uint64_t bucket, std::string_view key);  // -> the id of the key's null version in `versions`

// versions: bucket id, key (as in an upload's), the id's complement: the newest of a key comes first
std::string version_bucket(uint64_t bucket);
std::string version_key_prefix(uint64_t bucket, std::string_view key);  // up to where keys differ: no end mark
std::string version_prefix(uint64_t bucket, std::string_view key);      // all of this key
std::string version(uint64_t bucket, std::string_view key, uint64_t id);
std::optional<std::pair<std::string, uint64_t>> parse_version(std::string_view index_key);  // key, id

// What a record holds as a number: eight bytes.
std::string number(uint64_t v);
std::optional<uint64_t> parse_number(std::string_view bytes);

// segments, extents, in_index
std::string segment_prefix(uint64_t blob);
std::string segment(uint64_t blob, uint32_t number);
std::optional<std::pair<uint64_t, uint32_t>> parse_segment(std::string_view key);  // blob, number
std::string extent_prefix(uint64_t volume);
std::string extent(uint64_t volume, uint64_t offset);
std::optional<std::pair<uint64_t, uint64_t>> parse_extent(std::string_view key);  // volume, offset
std::string in_index(uint64_t blob);

// The smallest string above every string that starts with `prefix`; nullopt when there is none (only 0xff bytes).
std::optional<std::string> after_prefix(std::string_view prefix);

}  // namespace keys
}  // namespace verbena::store::local
