// A thread's recent writes into other processes' memory: whether a destination may still be in a cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::fabric::local {

class RecentTargets {
 public:
  // After this many bytes written by the thread a destination is in no near cache any more. (Copies of 1 MiB each,
  // cycling over a buffer: memcpy was the faster one for 1 MiB, both were equal from 2 to 32 MiB, and past the caches
  // it was 1.8 times as fast for 64 MiB, 1.6 times for 128; Intel Xeon, virtual. `micro_bench
  // --benchmark_filter=copy_around`.)
  static constexpr uint64_t window = 12 << 20;

  // Whether a part of [to, to + size) was written within the last `window` bytes; records the write.
  bool note(const std::byte* to, size_t size) {
    const auto begin = reinterpret_cast<uintptr_t>(to), end = begin + size;
    const bool found = is_recent(begin, end);
    Range& last = ranges_[newest_];
    if (last.end == begin && last.bytes + size <= window / 4) {  // continues the last one
      last.end = end;
      last.bytes += size;
    } else {
      newest_ = (newest_ + 1) % ranges_.size();
      ranges_[newest_] = {begin, end, size};
    }
    return found;
  }

 private:
  struct Range {
    uintptr_t begin = 0, end = 0;
    uint64_t bytes = 0;
  };

  bool is_recent(uintptr_t begin, uintptr_t end) const {
    uint64_t since = 0;
    for (size_t i = 0; i < ranges_.size() && since < window; ++i) {
      const Range& range = ranges_[(newest_ + ranges_.size() - i) % ranges_.size()];
      if (range.begin < end && begin < range.end) return true;
      since += range.bytes;
    }
    return false;
  }

  std::array<Range, 128> ranges_;
  size_t newest_ = 0;
};

}  // namespace verbena::fabric::local
