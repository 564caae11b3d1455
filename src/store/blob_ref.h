// A row's reference to a blob (blobs.h).
#pragma once

#include <cstdint>

namespace verbena::store {

// Where a blob's bytes are. Each engine defines what the kinds mean; rows store them.
enum class BlobKind : uint8_t {
  empty = 0,     // no bytes, nothing stored
  in_index = 1,  // small: stored with the rows
  extents = 2,   // in the engine's storage for bytes
};

// The bytes of an object or of one part. Ids are never reused.
struct BlobRef {
  BlobKind kind = BlobKind::empty;
  uint64_t id = 0;
  uint64_t size = 0;
  bool operator==(const BlobRef&) const = default;
};

}  // namespace verbena::store
