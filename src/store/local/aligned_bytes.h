// Memory that direct I/O accepts: zeros at first.
#pragma once

#include <cstdint>
#include <vector>

#include "store/local/file_system.h"

namespace verbena::store::local {

class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size) : memory_(size + disk_alignment), size_(size) {}
  MutableBytes bytes() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return MutableBytes(memory_).subspan(align_up(address) - address, size_);
  }

 private:
  std::vector<std::byte> memory_;
  size_t size_;
};

}  // namespace verbena::store::local
