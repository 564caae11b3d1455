// What a removed bucket leaves behind: its uploads and their parts, which nothing finds without the bucket. They go a
// piece at a time, so that no commit waits for all of them. A record in the index says that it goes on: it is written
// with the batch that removes the bucket and goes with the last piece, so a crash between two pieces loses nothing.
#pragma once

#include <string>
#include <vector>

#include "store/local/index.h"

namespace verbena::store::local {

class BucketSweep {
 public:
  static constexpr size_t changes_max = 1024;  // of the index, in one piece

  explicit BucketSweep(uint64_t bucket) : bucket_(bucket) {}

  // Takes the next piece out of the index and returns the blobs that it left without a name, which have dead records.
  // Not synced: what is lost of it is done again. After an error nothing has changed.
  Result<std::vector<uint64_t>> step(Index& index);
  bool done() const { return done_; }

 private:
  uint64_t bucket_;
  std::string from_;  // the first index key that the next piece looks at
  bool done_ = false;
};

}  // namespace verbena::store::local
