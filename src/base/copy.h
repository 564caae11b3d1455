// Copies of bytes between non-overlapping places.
//
// memcpy of glibc before 2.40 copies more than some KiB by `rep movsb`, and on AMD's Zen 3 and 4 that takes twenty
// times as long if the target is 1 to 31 bytes behind the source within a page (sourceware.org/bugzilla 30994): for
// example from a page's beginning to memory of malloc(), whose large blocks begin 16 bytes after one. A plain loop is
// not affected. `micro_bench --benchmark_filter=copy` shows both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"

namespace verbena {

inline void copy_bytes(std::byte* to, const std::byte* from, size_t size) {
  constexpr size_t page = 4096, behind_max = 31, slow_from = 2 * KiB;
  constexpr size_t block_size = 128;  // read into registers, then written
  const size_t behind = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % page;
  if (size >= slow_from && behind - 1 < behind_max) {
    for (; size >= block_size; size -= block_size, to += block_size, from += block_size) {
      std::byte block[block_size];
      std::memcpy(block, from, block_size);
      std::memcpy(to, block, block_size);
    }
  }
  if (size != 0) std::memcpy(to, from, size);
}

// A copy with stores that bypass the caches. For targets that are in no cache: memcpy reads such memory before it
// writes it, so that half as many bytes again go over the memory's bus, and it takes up to twice as long. For a target
// in a cache it is slower. A thread that is notified afterwards sees the bytes.
void copy_past_caches(std::byte* to, const std::byte* from, size_t size);

// In which order its lines are written. Intel's processors are faster with a line of each of four pages in turn, which
// keeps more of the memory's banks busy; AMD's (Zen) then take five times as long as for one line after the other.
// `micro_bench --benchmark_filter=copy` shows both.
enum class CopyOrder { lines, pages_in_parallel };
CopyOrder best_copy_order();  // on this processor
void copy_past_caches_in(std::byte* to, const std::byte* from, size_t size, CopyOrder order);

inline void copy_bytes(std::byte* to, Bytes from) { copy_bytes(to, from.data(), from.size()); }

}  // namespace verbena
