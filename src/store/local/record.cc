#include "store/local/record.h"

#include "base/checksum.h"
#include "store/local/file_system.h"
#include "store/logic/codec.h"

namespace verbena::store::local {

std::string encode(const Segment& segment) {
  Encoder e;
  e.varint(segment.extents.size());
  for (const Extent& x : segment.extents) {
    e.varint(x.volume);
    e.varint(x.offset / disk_alignment);
    e.varint(x.length / disk_alignment);
  }
  e.varint(segment.block_crcs.size());
  for (uint32_t crc : segment.block_crcs) e.u32(crc);
  return e.take();
}

Result<Segment> decode_segment(std::string_view bytes) {
  Decoder d(bytes);
  Segment segment;
  segment.extents.resize(d.count(3));
  uint64_t blocks = 0;
  for (Extent& x : segment.extents) {
    x.volume = d.varint();
    x.offset = d.varint_max(UINT64_MAX / disk_alignment / 4) * disk_alignment;
    x.length = d.varint_max(segment_size / disk_alignment) * disk_alignment;
    if (x.length == 0) d.reject();
    // Only the last extent may end inside a block.
    if (&x != &segment.extents.back() && x.length % block_size != 0) d.reject();
    blocks += align_up(x.length, block_size) / block_size;
  }
  segment.block_crcs.resize(d.count(4));
  for (uint32_t& crc : segment.block_crcs) crc = d.u32();
  if (segment.block_crcs.size() != blocks || blocks > segment_size / block_size) d.reject();
  return finished(d, std::move(segment));
}

std::string encode(const ExtentOwner& owner) {
  Encoder e;
  e.varint(owner.blob);
  e.varint(owner.length / disk_alignment);
  return e.take();
}

Result<ExtentOwner> decode_extent_owner(std::string_view bytes) {
  Decoder d(bytes);
  ExtentOwner owner;
  owner.blob = d.varint();
  owner.length = d.varint_max(segment_size / disk_alignment) * disk_alignment;
  if (owner.length == 0) d.reject();
  return finished(d, owner);
}

std::string encode_inline(Bytes bytes) {
  uint32_t crc = crc32c(bytes);
  std::string value;
  value.reserve(4 + bytes.size());
  for (int shift = 0; shift < 32; shift += 8) value.push_back(static_cast<char>(crc >> shift));
  value.append(as_text(bytes));
  return value;
}

std::string encode_lost_inline() { return std::string(4, '\xff'); }  // the CRC32C of no bytes is 0

Result<std::string_view> decode_inline(std::string_view value) {
  if (value.size() < 4) return fail(Errc::corrupt_object, "inline blob: too short");
  uint32_t crc = 0;
  for (int i = 0; i < 4; ++i) crc |= static_cast<uint32_t>(static_cast<uint8_t>(value[i])) << (8 * i);
  value.remove_prefix(4);
  if (crc32c(as_bytes(value)) != crc) return fail(Errc::corrupt_object, "inline blob: checksum");
  return value;
}

}  // namespace verbena::store::local
