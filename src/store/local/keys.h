// The layout of the index's own keys, beside those of the store's logic (store/logic/keys.h).
#pragma once

#include "store/catalogue.h"
#include "store/logic/keys.h"

namespace verbena::store::local {

// One RocksDB column family each; one write-ahead log for all.
enum class Family : uint8_t {
  meta = 0,      // Table::meta, and rows of the engine itself: epoch, volumes' clean marks, dead blobs
  objects = 1,   // Table::objects
  uploads = 2,   // Table::uploads
  segments = 3,  // where a blob's bytes lie, and their CRCs
  extents = 4,   // the space map: which blob owns an extent of a volume
  in_index = 5,  // small blobs' bytes
  versions = 6,  // Table::versions
};
inline constexpr size_t family_count = 7;

constexpr Family family(Table table) {
  constexpr Family families[table_count] = {Family::meta, Family::objects, Family::uploads, Family::versions};
  return families[static_cast<size_t>(table)];
}

namespace keys {

using namespace store::keys;

// meta: one letter says which; 'b' and 'c' are the logic's
std::string epoch();
std::string scrub();
std::string volume_clean(uint64_t volume);
std::string space_kept();  // volumes may have space that no extent names
std::string pmem_log();    // the id of the log on persistent memory, which may have objects that the index does not
std::string pmem_over();   // the ids of those that have none, whatever can be read there
std::string device();      // the device that has the volumes (device_bond.h)
std::string dead_prefix();
std::string dead(uint64_t blob);
std::optional<uint64_t> parse_dead(std::string_view key);
std::string removed_bucket_prefix();
std::string removed_bucket(uint64_t bucket);  // its remaining rows are still being removed
std::optional<uint64_t> parse_removed_bucket(std::string_view key);
std::string usage_prefix();
std::string usage(uint64_t bucket);  // its contents in numbers (store/logic/usage.h); no row: not counted yet

// segments, extents, in_index
std::string segment(uint64_t blob, uint32_t number);
std::optional<std::pair<uint64_t, uint32_t>> parse_segment(std::string_view key);  // blob, number
std::string extent_prefix(uint64_t volume);
std::string extent(uint64_t volume, uint64_t offset);
std::optional<std::pair<uint64_t, uint64_t>> parse_extent(std::string_view key);  // volume, offset
std::string in_index(uint64_t blob);

}  // namespace keys
}  // namespace verbena::store::local
