// Invalidation of cached documents of buckets.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace verbena::s3 {

// A number for the documents of each bucket, and one for what is cached of each account (its limits). Each thread
// caches recently used records; a record from before the last change of its bucket, or of its owner, is read again. So
// a change holds for every request that begins after it was acknowledged, and a caller that changes its own bucket in a
// loop leaves the records of others alone. A request that still uses an older record began before the change was
// acknowledged: it is served as if it had come first, and one that waits for a body asks again before it changes
// anything (may_have_changed()).
//
// The numbers lie in a table of a fixed size, at places by a hash of the name. Two names may share a place: then a
// change of one makes the other's record stale, too, which costs a reading and is never wrong. The hash has a secret,
// so no client can choose a name that shares another one's place.
class AccessGeneration {
 public:
  enum class Place : uint16_t {};
  // Of one record: where its numbers are, and their sum from before the record was read. The numbers only grow, so the
  // sum is the same exactly as long as each of them is.
  struct Mark {
    Place bucket{}, owner{};
    uint64_t number = 0;  // of no two servers the same; 0: of no record
    bool operator==(const Mark&) const = default;
  };

  AccessGeneration();
  Place place_of(std::string_view bucket) const;
  Place place_of_owner(std::string_view canonical_id) const;

  // The bucket's number alone.
  uint64_t now(Place bucket) const { return all_.load(std::memory_order_acquire) + count_at(bucket); }
  uint64_t now(std::string_view bucket) const { return now(place_of(bucket)); }
  uint64_t owner_now(Place owner) const { return count_at(owner); }
  bool is_current(const Mark& mark) const { return mark.number == now(mark.bucket) + owner_now(mark.owner); }

  // Call each after the change, and before it is acknowledged.
  void changed(std::string_view bucket) { add_at(place_of(bucket)); }  // its documents, or whether there is one
  void owner_changed(std::string_view canonical_id) { add_at(place_of_owner(canonical_id)); }
  void all_changed() { all_.fetch_add(1, std::memory_order_acq_rel); }

  // Decides which buckets' records may be cached, since other servers may be changing a bucket. A bucket's number
  // changes both when caching stops being allowed and before it is allowed again. Set before the first request.
  void keep_where(std::function<bool(std::string_view bucket)> may_keep) { may_keep_ = std::move(may_keep); }
  bool may_keep(std::string_view bucket) const { return !may_keep_ || may_keep_(bucket); }

 private:
  static constexpr size_t places = 16'384;  // 128 KiB
  uint64_t count_at(Place place) const { return counts_[static_cast<size_t>(place)].load(std::memory_order_acquire); }
  void add_at(Place place) { counts_[static_cast<size_t>(place)].fetch_add(1, std::memory_order_acq_rel); }

  std::byte buckets_secret_[16], owners_secret_[16];
  std::atomic<uint64_t> all_;  // of no two objects the same
  std::array<std::atomic<uint64_t>, places> counts_{};
  std::function<bool(std::string_view)> may_keep_;
};

}  // namespace verbena::s3
