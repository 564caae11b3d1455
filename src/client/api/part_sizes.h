// How large the parts of a multipart upload are: S3 takes 10,000 of them, of up to 5 GiB.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"

namespace verbena::client {

// What one PUT may have at any door, and one part.
inline constexpr uint64_t put_size_max = 5 * GiB;
inline constexpr uint64_t parts_max = 10'000;

// Of an object of `bytes`, of which it suffices.
inline uint64_t part_size_for(uint64_t part_size, uint64_t bytes) {
  return std::max(part_size, (bytes + parts_max - 1) / parts_max);
}

// The sizes of a stream's parts, in order. Of one whose length is not known (0) they are doubled after each thousand:
// 10,000 parts of 16 MiB would end at 156 GiB.
class PartSizes {
 public:
  PartSizes(uint64_t part_size, uint64_t stream_size)
      : size_(part_size_for(part_size, stream_size)), grow_(stream_size == 0) {}
  uint64_t next() {
    if (grow_ && begun_ > 0 && begun_ % parts_of_one_size == 0) size_ = std::min(2 * size_, put_size_max);
    ++begun_;
    return size_;
  }

 private:
  static constexpr uint64_t parts_of_one_size = 1'000;
  uint64_t size_;
  const bool grow_;
  uint64_t begun_ = 0;
};

}  // namespace verbena::client
