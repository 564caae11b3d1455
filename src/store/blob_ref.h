// Which blob a row names (blobs.h).
#pragma once

#include <cstdint>

namespace verbena::store {

// Where a blob's bytes are. Engines give the kinds their meaning; rows keep them.
enum class BlobKind : uint8_t {
  empty = 0,     // no bytes, nothing stored
  in_index = 1,  // small: with the rows
  extents = 2,   // where the engine keeps bytes
};

// An object's bytes, or one part's. Ids are never used again.
struct BlobRef {
  BlobKind kind = BlobKind::empty;
  uint64_t id = 0;
  uint64_t size = 0;
  bool operator==(const BlobRef&) const = default;
};

}  // namespace verbena::store
