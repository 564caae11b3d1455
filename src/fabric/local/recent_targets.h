// What a thread wrote into others' memory of late, and so whether a place is in a cache still.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::fabric::local {

class RecentTargets {
 public:
  // Bytes that a thread writes before what it wrote first is in no cache that is near. (Of copies of 1 MiB each, around
  // so many bytes: memcpy was the faster one of 1 MiB, both were alike from 2 to 32 MiB, and past the caches it
  // went 1.8 times as fast around 64 MiB, 1.6 times around 128; Intel Xeon, virtual. `micro_bench
  // --benchmark_filter=copy_around`.)
  static constexpr uint64_t window = 12 << 20;

  // Whether something of [to, to + size) was written within the last `window` bytes; notes that it is written now.
  bool note(const std::byte* to, size_t size) {
    const auto begin = reinterpret_cast<uintptr_t>(to), end = begin + size;
    const bool found = is_recent(begin, end);
    Range& last = ranges_[newest_];
    if (last.end == begin && last.bytes + size <= window / 4) {  // goes on where the last one ended
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
