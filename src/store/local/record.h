// What index values look like: versioned binary records, decoded as if a stranger had written them.
//
// Each record starts with its format version (1). Integers are LEB128 varints, strings carry their length, lists their
// count; a count is checked against the bytes that are left before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace verbena::store::local {

inline constexpr uint64_t block_size = 64 * KiB;             // what one CRC32C covers
inline constexpr uint64_t segment_size = 1024 * block_size;  // of a blob: one index value describes this much
// What an object or a part may take with all that is added to its bytes.
inline constexpr uint64_t stored_size_max = object_size_max + object_size_max / 1024;
inline constexpr uint64_t part_stored_size_max = part_size_max + part_size_max / 1024;

// A piece of a volume. Offset and length are multiples of 4096; the length covers the padding.
struct Extent {
  uint64_t volume = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const Extent&) const = default;
};

enum class BlobKind : uint8_t {
  empty = 0,     // no bytes, nothing stored
  in_index = 1,  // one value of the inline family
  extents = 2,   // segments in the segments family
};

// A run of bytes that was written once: an object's, or one part's. Ids are never used again.
struct BlobRef {
  BlobKind kind = BlobKind::empty;
  uint64_t id = 0;
  uint64_t size = 0;
  bool operator==(const BlobRef&) const = default;
};

// Up to segment_size bytes of a blob: where they lie, and the CRC32C of each 64 KiB block (the last may be shorter; a
// block never spans two extents).
struct Segment {
  std::vector<Extent> extents;
  std::vector<uint32_t> block_crcs;
  bool operator==(const Segment&) const = default;
};

struct StoredPart {
  PartInfo info;
  BlobRef blob;
};

// The head of an object, or of one version of it: what HEAD and LIST need, nothing more. A multipart object's parts are
// a record of their own. Ids grow with each commit, so of a key's versions the newest has the highest. info.version_id
// is empty for a null version.
struct ObjectRecord {
  uint64_t id = 0;  // new for each commit
  ObjectInfo info;  // without parts
  BlobRef blob;     // when part_count is 0
  uint32_t part_count = 0;

  bool is_null() const { return info.version_id.empty(); }
};

struct UploadRecord {
  uint64_t id = 0;
  UploadInfo info;  // bucket, key and upload_id are in the index key
};

struct BucketRecord {
  uint64_t id = 0;
  BucketInfo info;
};

// What the space map says of an extent: which blob it belongs to.
struct ExtentOwner {
  uint64_t blob = 0;
  uint64_t length = 0;
};

std::string encode(const ObjectRecord& record);
std::string encode(const std::vector<StoredPart>& parts);
std::string encode(const StoredPart& part);
std::string encode(const UploadRecord& record);
std::string encode(const BucketRecord& record);
std::string encode(const Segment& segment);
std::string encode(const ExtentOwner& owner);

// malformed for anything that encode() did not make.
Result<ObjectRecord> decode_object(std::string_view bytes);
Result<std::vector<StoredPart>> decode_parts(std::string_view bytes);
Result<StoredPart> decode_part(std::string_view bytes);
Result<UploadRecord> decode_upload(std::string_view bytes);
Result<BucketRecord> decode_bucket(std::string_view bytes);
Result<Segment> decode_segment(std::string_view bytes);
Result<ExtentOwner> decode_extent_owner(std::string_view bytes);

// An inline blob's value: the CRC32C of the bytes, then the bytes.
std::string encode_inline(Bytes bytes);
Result<std::string_view> decode_inline(std::string_view value);  // corrupt_object when the CRC says so

}  // namespace verbena::store::local
