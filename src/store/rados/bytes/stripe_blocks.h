// The blocks of a stripe and their checksums: filling a stripe to write, and copying out of one that was read. A block
// is checked right after its copy, while it is in the processor's caches.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "store/rados/cluster/cluster.h"
#include "store/rados/cluster/layout.h"

namespace verbena::store::rados {

// A stripe being filled, in buffers of librados.
class StripeFill {
 public:
  uint64_t size() const { return bytes_.length() + filled_; }
  // At most stripe_size - size() bytes.
  void add(Bytes bytes);
  struct Stripe {
    Buffer bytes;
    std::string checksums;  // four bytes for each block
  };
  Stripe take();  // and begins the next stripe

 private:
  void end_block();

  Buffer bytes_;  // whole blocks
  ceph::buffer::ptr block_;
  uint64_t filled_ = 0;  // of block_
  std::string checksums_;
};

// Requested bytes of a stripe, and their destination.
struct StripePart {
  uint64_t at = 0;
  MutableBytes into;
  std::shared_ptr<const void> memory = {};  // owns `into`
};

// The blocks that contain [at, at + size) of a stripe of `stripe_bytes`.
struct BlockRange {
  uint64_t first = 0, last = 0;  // bytes
  static BlockRange of(uint64_t at, uint64_t size, uint64_t stripe_bytes);
};

// Copies the parts out of `bytes`, which were read from that range of the stripe. corrupt_object: bytes are missing, or
// a block does not match its checksum; the contents of the parts are then undefined.
Result<void> copy_checked(Buffer bytes, std::string_view checksums, uint64_t stripe_bytes, BlockRange range,
                          std::span<const StripePart> parts);

}  // namespace verbena::store::rados
