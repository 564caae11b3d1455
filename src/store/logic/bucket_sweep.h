// The rest of a removed bucket: its uploads and their parts, which cannot be found without the bucket. They are removed
// in pieces, so that no change waits for all of them. Each piece is found and removed in one change, and nothing is
// added to a bucket whose record is gone, since every change looks at the record first.
//
// A removed bucket has no objects and no versions. One whose record damage has taken may have some: they go first.
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
  bool done() const { return stage_ == Stage::done; }

 private:
  enum class Stage : uint8_t { objects, versions, uploads, others, done };
  uint64_t bucket_;
  Stage stage_ = Stage::objects;  // of the next piece
  std::string from_;              // its first row; empty: the stage's first
};

}  // namespace verbena::store
