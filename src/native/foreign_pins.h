// What leases of other accounts than the bucket's owner pin of bounded buckets: at most half of each bound. An eviction
// passes over pinned keys, so without a limit a reader could pin all of a bucket, and its owner's writes would find no
// room. One account pins at most half of that half, so that it leaves others room; but one key always fits, if the half
// has room for it: else an account could not lease a large object, or anything of a small bucket.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "s3/access/access.h"

namespace verbena::native {

// Thread-safe. A key counts once, however many leases pin it, with the largest of the versions that they hold; so it
// does for each account whose leases pin it. Clients without an account are one account.
class ForeignPins {
 public:
  // False: an account's part or half of the bound is pinned, and nothing was taken. The bucket has a bound.
  bool take(const s3::BucketAccess& bucket, std::string_view account, std::string_view key, uint64_t bytes);
  // Once for each take() that succeeded.
  void give_back(const s3::BucketAccess& bucket, std::string_view account, std::string_view key);

 private:
  // Pinned keys of one bucket, of all accounts or of one.
  class Pinned {
   public:
    bool has_room(uint64_t key, uint64_t bytes, uint64_t keys_max, uint64_t bytes_max) const;
    bool is_alone(uint64_t key) const { return keys_.empty() || (keys_.size() == 1 && keys_.contains(key)); }
    void take(uint64_t key, uint64_t bytes);
    void give_back(uint64_t key);
    bool empty() const { return keys_.empty(); }

   private:
    struct Pin {
      uint64_t leases = 0, bytes = 0;
    };
    std::unordered_map<uint64_t, Pin> keys_;  // by a keyed hash: two keys may count as one, by chance
    uint64_t bytes_ = 0;
  };
  struct OfBucket {
    Pinned all;
    std::map<std::string, Pinned, std::less<>> accounts;
  };

  std::mutex mutex_;
  std::unordered_map<std::string, OfBucket> buckets_;  // by name; none is empty
};

}  // namespace verbena::native
