// The blocks of a stripe and their checksums: how bytes come into a stripe that is written, and out of one that was
// read. Each byte is checked beside its copy, block by block, while the block is in the processor's caches.
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

// A stripe that is being filled. Its buffers are librados's own.
class StripeFill {
 public:
  uint64_t size() const { return bytes_.length() + filled_; }
  // At most what is left of it: stripe_size - size() bytes.
  void add(Bytes bytes);
  struct Stripe {
    Buffer bytes;
    std::string checksums;  // of each block, four bytes
  };
  Stripe take();  // and begins the next one

 private:
  void end_block();

  Buffer bytes_;  // whole blocks
  ceph::buffer::ptr block_;
  uint64_t filled_ = 0;  // of block_
  std::string checksums_;
};

// Bytes of a stripe that are wanted, and where.
struct StripePart {
  uint64_t at = 0;
  MutableBytes into;
  std::shared_ptr<const void> memory = {};  // that keeps `into`
};

// The blocks that [at, at + size) of a stripe of `stripe_bytes` lies in.
struct BlockRange {
  uint64_t first = 0, last = 0;  // bytes
  static BlockRange of(uint64_t at, uint64_t size, uint64_t stripe_bytes);
};

// Copies the parts out of `bytes`, which were read of that range of the stripe. corrupt_object: they are not all there,
// or a block is not what its checksum says; then nothing of the parts means anything.
Result<void> copy_checked(Buffer bytes, std::string_view checksums, uint64_t stripe_bytes, BlockRange range,
                          std::span<const StripePart> parts);

}  // namespace verbena::store::rados
