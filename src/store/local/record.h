// Contents of the index's own rows, beside the logic's (store/logic/record.h): locations of blobs, and owners of
// extents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/logic/record.h"

namespace verbena::store::local {

inline constexpr uint64_t block_size = 64 * KiB;             // the unit that one CRC32C covers
inline constexpr uint64_t segment_size = 1024 * block_size;  // of a blob: one index value describes this much

// A piece of a volume. Offset and length are multiples of 4096; the length covers the padding.
struct Extent {
  uint64_t volume = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const Extent&) const = default;
};

// Up to segment_size bytes of a blob: their location, and the CRC32C of each 64 KiB block (the last may be shorter; a
// block never spans two extents).
struct Segment {
  std::vector<Extent> extents;
  std::vector<uint32_t> block_crcs;
  bool operator==(const Segment&) const = default;
};

// An extent's entry in the space map: the blob that owns it.
struct ExtentOwner {
  uint64_t blob = 0;
  uint64_t length = 0;
};

std::string encode(const Segment& segment);
std::string encode(const ExtentOwner& owner);

// malformed for anything that encode() did not produce.
Result<Segment> decode_segment(std::string_view bytes);
Result<ExtentOwner> decode_extent_owner(std::string_view bytes);

// An inline blob's value: the CRC32C of the bytes, then the bytes.
std::string encode_inline(Bytes bytes);
Result<std::string_view> decode_inline(std::string_view value);  // corrupt_object when the CRC does not match
// The value of an inline blob whose bytes were lost before the index had them: decode_inline() refuses it.
std::string encode_lost_inline();

}  // namespace verbena::store::local
