// Blocks of lendable memory, kept for reuse. Guarded by its stream's mutex.
#pragma once

#include <bit>
#include <vector>

#include "client/native/call.h"

namespace verbena::client {

class NativeStaging {
 public:
  // A block of at least `size` bytes.
  Result<StagingBlock> take(fabric::Link& link, size_t size) {
    const size_t block = std::bit_ceil(std::max(size, size_min));
    for (auto it = spare_.begin(); it != spare_.end(); ++it) {
      if ((*it)->size() != block) continue;
      StagingBlock found = std::move(*it);
      spare_.erase(it);
      spare_bytes_ -= block;
      return found;
    }
    return link.allocate(size > reused_max ? size : block);
  }
  void give_back(StagingBlock block) {
    if (block->size() > reused_max || spare_bytes_ + block->size() > spare_bytes_max) return;
    spare_bytes_ += block->size();
    spare_.push_back(std::move(block));
  }
  void clear() {
    spare_.clear();
    spare_bytes_ = 0;
  }

 private:
  static constexpr size_t size_min = 64 * KiB;
  static constexpr size_t reused_max = 64 * MiB;  // larger blocks have the exact size and are not kept
  static constexpr size_t spare_bytes_max = 64 * MiB;
  std::vector<StagingBlock> spare_;
  size_t spare_bytes_ = 0;
};

}  // namespace verbena::client
