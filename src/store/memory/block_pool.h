// The memory of blocks that are gone, for blocks that come. In a cache that is full each block that is evicted makes
// room for one of its size; through the allocator, which joins free pieces and splits them again, and on another thread
// than they came from, that costs as much as the rest of an eviction. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/quick_mutex.h"

namespace verbena::store::in_memory {

class BlockPool {
 public:
  using Memory = std::unique_ptr<std::byte[]>;
  static constexpr uint64_t bytes_max = 4 * MiB;  // of one size; of so many sizes at once:
  static constexpr size_t sizes_max = 4;

  Memory take(uint32_t size) {
    if (size >= size_min) {
      const std::lock_guard lock(mutex_);
      OfSize& of = of_size(size);
      if (of.size == size && !of.free.empty()) {
        Memory taken = std::move(of.free.back());
        of.free.pop_back();
        return taken;
      }
    }
    return std::make_unique_for_overwrite<std::byte[]>(size);
  }
  void give(Memory memory, uint32_t size) {
    if (size < size_min) return;
    std::vector<Memory> others;  // freed under no lock
    const std::lock_guard lock(mutex_);
    OfSize& of = of_size(size);
    if (of.size != size) {
      std::swap(others, of.free);
      of.size = size;
    }
    if ((of.free.size() + 1) * size > bytes_max) return;
    try {
      of.free.push_back(std::move(memory));
    } catch (const std::bad_alloc&) {  // the block is freed: a destructor calls this
    }
  }

 private:
  static constexpr uint32_t size_min = 1 * KiB;  // the allocator is quick at smaller ones
  struct OfSize {
    uint32_t size = 0;
    std::vector<Memory> free{};
  };
  OfSize& of_size(uint32_t size) { return sizes_[(size ^ size >> 8 ^ size >> 16) % sizes_max]; }

  QuickMutex mutex_;
  std::array<OfSize, sizes_max> sizes_;
};

}  // namespace verbena::store::in_memory
