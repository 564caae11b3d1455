// The rest of a removed bucket: its uploads and their parts, which cannot be found without the bucket. They are removed
// in pieces, so that no change waits for all of them. Each piece is found and removed in one change, and nothing is
// added to a bucket whose record is gone, since every change looks at the record first.
#pragma once

#include <cstdint>
#include <string>

#include "store/catalogue.h"

namespace verbena::store {

class BucketSweep {
 public:
  static constexpr size_t rows_max = 1024;  // of one piece

  explicit BucketSweep(uint64_t bucket) : bucket_(bucket) {}

  // Removes the next piece. Returns the sweep as it is after that change.
  Result<BucketSweep> step(Transaction& transaction) const;
  uint64_t bucket() const { return bucket_; }
  bool done() const { return done_; }

 private:
  uint64_t bucket_;
  std::string from_;  // the first row of the next piece
  bool done_ = false;
};

}  // namespace verbena::store
