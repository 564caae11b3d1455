// What a removed bucket leaves behind: its uploads and their parts, which nothing finds without the bucket. They go a
// piece at a time, so that no change waits for all of them. Each piece is found and removed in one change, and nothing
// comes to a bucket whose record has gone, since every change of it looks at that first.
#pragma once

#include <cstdint>
#include <string>

#include "store/catalogue.h"

namespace verbena::store {

class BucketSweep {
 public:
  static constexpr size_t rows_max = 1024;  // of one piece

  explicit BucketSweep(uint64_t bucket) : bucket_(bucket) {}

  // Takes away the next piece. Returns the sweep as it stands when the change is made.
  Result<BucketSweep> step(Transaction& transaction) const;
  uint64_t bucket() const { return bucket_; }
  bool done() const { return done_; }

 private:
  uint64_t bucket_;
  std::string from_;  // the first row that the next piece looks at
  bool done_ = false;
};

}  // namespace verbena::store
