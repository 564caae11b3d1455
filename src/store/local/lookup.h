// Finds heads outside of a transaction, for calls that read.
#pragma once

#include <string_view>

#include "store/local/engine.h"

namespace verbena::store::local {

struct VersionName {
  std::string_view key;
  std::string_view version_id;  // empty: the current object
};

// What calls that read may see of a bucket. Where objects are durable before they are acknowledged, nobody is shown one
// before it is.
inline View view_of(const Bucket& bucket) {
  return bucket.durability.load(std::memory_order_acquire) == Durability::sync ? View::durable : View::newest;
}

// would_block with Tier::cached when the disk would be needed; no_such_key, no_such_version, invalid_version. A delete
// marker is found when it is named.
Result<ObjectRecord> read_record(Engine& engine, const Bucket& bucket, VersionName name, Tier tier);

// Likewise, and without a version id finds the newest version, be it a delete marker.
Result<ObjectRecord> read_newest(Engine& engine, const Bucket& bucket, VersionName name);

}  // namespace verbena::store::local
