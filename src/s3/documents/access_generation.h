// Tells when what is kept of buckets' documents has to be read again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace verbena::s3 {

// When the documents of any bucket changed. Each thread keeps the records that it used of late; a record from before
// the last change is read again. So a change holds for every request that begins after it was acknowledged.
class AccessGeneration {
 public:
  AccessGeneration();
  uint64_t now() const { return number_.load(std::memory_order_acquire); }
  void changed();
  // Which buckets' records may be kept at all: others may be changing one. A bucket's number is another one both after
  // it must not be kept any more and before it may be again. Set before the first request.
  void keep_where(std::function<bool(std::string_view bucket)> may_keep) { may_keep_ = std::move(may_keep); }
  bool may_keep(std::string_view bucket) const { return !may_keep_ || may_keep_(bucket); }

 private:
  std::atomic<uint64_t> number_;  // of no two objects the same
  std::function<bool(std::string_view)> may_keep_;
};

}  // namespace verbena::s3
