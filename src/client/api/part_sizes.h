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

// The sizes of a stream's parts, in order. Of one whose length is not known (0) they grow by a third after each 500:
// 10,000 parts of 16 MiB would end at 156 GiB.
class PartSizes {
 public:
  PartSizes(uint64_t part_size, uint64_t stream_size)
      : part_size_(part_size), size_(part_size_for(part_size, stream_size)), grow_(stream_size == 0) {}
  uint64_t next() {
    if (grow_ && begun_ > 0 && begun_ % parts_of_one_size == 0) size_ = std::min(size_ / 3 * 4, put_size_max);
    ++begun_;
    return size_;
  }
  // How many parts may be in memory at once: as many bytes as `parts_in_flight` of part_size, and two, so that one is
  // read while another is sent.
  unsigned at_once(unsigned parts_in_flight) const {
    const uint64_t fit = parts_in_flight * part_size_ / size_;
    return static_cast<unsigned>(std::clamp<uint64_t>(fit, std::min(2u, parts_in_flight), parts_in_flight));
  }

 private:
  static constexpr uint64_t parts_of_one_size = 500;
  const uint64_t part_size_;
  uint64_t size_;
  const bool grow_;
  uint64_t begun_ = 0;
};

}  // namespace verbena::client
