// Invalidation of cached documents of buckets.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace verbena::s3 {

// A generation number for the documents of all buckets. Each thread caches recently used records; a record from before
// the last change is read again. So a change holds for every request that begins after it was acknowledged.
class AccessGeneration {
 public:
  AccessGeneration();
  uint64_t now() const { return number_.load(std::memory_order_acquire); }
  void changed();
  // Decides which buckets' records may be cached, since other servers may be changing a bucket. A bucket's number
  // changes both when caching stops being allowed and before it is allowed again. Set before the first request.
  void keep_where(std::function<bool(std::string_view bucket)> may_keep) { may_keep_ = std::move(may_keep); }
  bool may_keep(std::string_view bucket) const { return !may_keep_ || may_keep_(bucket); }

 private:
  std::atomic<uint64_t> number_;  // of no two objects the same
  std::function<bool(std::string_view)> may_keep_;
};

}  // namespace verbena::s3
