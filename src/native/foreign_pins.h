// What leases of other accounts than the bucket's owner pin of bounded buckets: at most half of each bound. An eviction
// passes over pinned keys, so without a limit a reader could pin all of a bucket, and its owner's writes would find no
// room.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "s3/access/access.h"

namespace verbena::native {

// Thread-safe. A key counts once, however many leases pin it, with the largest of the versions that they hold.
class ForeignPins {
 public:
  // False: half of the bound is pinned, and nothing was taken. The bucket has a bound.
  bool take(const s3::BucketAccess& bucket, std::string_view key, uint64_t bytes);
  // Once for each take() that succeeded.
  void give_back(const s3::BucketAccess& bucket, std::string_view key);

 private:
  struct Pin {
    uint64_t leases = 0, bytes = 0;
  };
  struct Pinned {
    std::unordered_map<uint64_t, Pin> keys{};  // by a keyed hash: two keys may count as one, by chance
    uint64_t bytes = 0;
  };

  std::mutex mutex_;
  std::unordered_map<std::string, Pinned> buckets_;  // by name
};

}  // namespace verbena::native
