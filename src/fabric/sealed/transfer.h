// The bytes of one transfer, sealed outside a connection: for a window that is lent for one request alone. Records,
// their associated data and their numbers are those of a connection (frames.h); the tags follow the last byte.
// docs/sealed-rdma.md, "Tokens".
#pragma once

#include <cstdint>

#include "fabric/sealed/cipher.h"
#include "fabric/sealed/frames.h"

namespace verbena::fabric::sealed {

inline constexpr uint64_t transfer_size_max = 256 * MiB;  // so that its tags are 64 KiB at most

// Bytes of the tags behind `length` bytes.
constexpr uint64_t trailer_size(uint64_t length) {
  return (length + record_size_max - 1) / record_size_max * aead_tag_size;
}
// Whether a window of `size` bytes holds `length` bytes and their tags.
constexpr bool fits(uint64_t length, uint64_t size) {
  return length <= transfer_size_max && length + trailer_size(length) <= size;
}

// One side of a transfer: it seals all bytes once, in order, or opens records. A key and a salt together serve one
// transfer in each direction.
class Transfer {
 public:
  // `base`, `window`: the address of byte 0 and the key of the window, as its token names them. `length`: of all bytes,
  // at most transfer_size_max.
  Transfer(const ConnectionKey& key, const Salt& salt, Direction direction, const WindowDescriptor& window,
           uint64_t length);

  uint64_t length() const { return place_.length; }
  size_t records() const { return trailer_size(length()) / aead_tag_size; }
  // The bytes of record `i`.
  uint32_t size_of(size_t i) const { return part_of(place_, i).length; }

  // Seals the next bytes, wherever records begin and end. `out` may be the memory of `plain`. The caller gives no more
  // than length() in all.
  void seal(Bytes plain, std::byte* out);
  uint64_t sealed() const { return sealed_; }
  // The trailer's memory, trailer_size(length()) bytes of the caller's, which outlive this. Named before the first
  // seal() or open(). Of a sender it is complete once all is sealed; a receiver writes to it what it got.
  void keep_tags_in(MutableBytes memory) { tags_ = memory; }
  MutableBytes tags() const { return tags_; }

  // False: not what was sealed as record `i`; `out` is then wiped. `out` may be the memory of `sealed`.
  [[nodiscard]] bool open(size_t i, Bytes sealed, std::byte* out);

 private:
  Cipher cipher_;
  Place place_;
  MutableBytes tags_;
  uint64_t sealed_ = 0;
};

}  // namespace verbena::fabric::sealed
