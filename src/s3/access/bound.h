// Bounded buckets: a bucket with a bound on its objects or bytes evicts instead of refusing writes. For caches.
//
// A Bound learns of each change of its bucket from the engine's change feed, so its account is exact for writes of
// every door. A write claims room when its bytes have arrived, so that a client that sends none evicts nothing, and
// holds the claim until it is counted: contents and claims together never exceed the bound. The worker
// (s3/workers/bounds_worker.h) evicts ahead of the claims; a write that finds no room waits for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "s3/access/eviction_order.h"
#include "s3/service.h"
#include "store/change_feed.h"
#include "store/removal_grounds.h"

namespace verbena::s3 {

inline constexpr std::string_view bound_document = store::bounding_document;  // of a bucket
// Of one bounded bucket. The order of eviction takes about 200 bytes of memory for each, and its key.
inline constexpr uint64_t bounded_objects_max = 4 * 1024 * 1024;

struct BoundSettings {
  uint64_t bytes_max = 0, objects_max = 0;  // 0: not limited
  EvictionPolicy policy = EvictionPolicy::s3_fifo;
  bool renew_on_read = false;  // a read renews the TTL of its object
  bool operator==(const BoundSettings&) const = default;

  bool is_limited() const { return bytes_max != 0 || objects_max != 0; }
  uint64_t most_bytes() const { return bytes_max == 0 ? UINT64_MAX : bytes_max; }
  uint64_t most_objects() const { return objects_max == 0 ? bounded_objects_max : objects_max; }
};
// malformed_xml, invalid_argument.
Result<BoundSettings> parse_bound(std::string_view xml);
std::string bound_xml(const BoundSettings& settings);

class Bound final : public store::ChangeListener {
 public:
  Bound(std::string bucket, int64_t created_us, std::string owner, BoundSettings settings,
        std::function<void()> wake_worker)
      : bucket_(std::move(bucket)),
        created_us_(created_us),
        owner_(std::move(owner)),
        wake_worker_(std::move(wake_worker)),
        settings_(settings),
        order_(settings.policy) {}

  const std::string& bucket() const { return bucket_; }
  int64_t created_us() const { return created_us_; }
  const std::string& owner() const { return owner_; }
  BoundSettings settings() const;
  void change(const BoundSettings& settings, store::Document document = nullptr);
  // It holds no longer: no write waits for it. Returns its order, to be destroyed under no lock.
  EvictionOrder withdraw();
  // The document of these settings: evictions by another one are refused at their commit.
  void decided_by(store::Document document);

  // For writes. `full`: nothing more can be evicted, because all of it is pinned. `wait`: the worker is evicting.
  enum class Room : uint8_t { claimed, wait, full, never };
  Room claim(uint64_t bytes, uint64_t objects);
  Result<void> check_size(uint64_t bytes) const;  // insufficient_storage: larger than the bound
  void release(uint64_t bytes, uint64_t objects);
  // For a read of a current object. Never waits: the note of a moment of contention is lost.
  void note_read(std::string_view key);

  // For the worker. False: the order must be loaded, from the listing.
  bool is_loaded() const;
  bool is_gone() const;
  void begin_load();
  void end_load(std::vector<EvictionOrder::Object> listed);
  // At most `max` objects to evict, if it is too full. Each is settled before the next call.
  std::vector<EvictionOrder::Object> victims(size_t max, store::Document* decided_by = nullptr);
  void settle(const EvictionOrder::Object& victim, bool removed);
  void correct(const EvictionOrder::Object& real);      // of a victim, before it is settled
  std::vector<std::string> take_read_keys(size_t max);  // whose TTL is to be renewed
  struct Held {
    uint64_t bytes = 0, objects = 0;
  };
  Held held() const;

  void told(uint64_t bucket, const store::KeyChangePtr& change) override;
  void lost_track(uint64_t bucket) override;
  void bucket_removed(uint64_t bucket) override;

 private:
  bool exceeds(uint64_t bytes, uint64_t objects) const;
  // Whether less than that `part` of the bound is free, once the leaving ones have left.
  bool is_filling(uint64_t leaving_bytes, uint64_t leaving_objects, uint64_t part) const;

  const std::string bucket_;
  const int64_t created_us_;
  const std::string owner_;
  const std::function<void()> wake_worker_;
  mutable std::mutex mutex_;
  BoundSettings settings_;
  store::Document document_;
  EvictionOrder order_;
  uint64_t claimed_bytes_ = 0, claimed_objects_ = 0;
  uint64_t wanted_bytes_ = 0, wanted_objects_ = 0;  // by the largest write that waits
  bool loaded_ = false, loading_ = false, gone_ = false, all_pinned_ = false;
  std::vector<std::string> removed_while_loading_, read_keys_;
};
using BoundPtr = std::shared_ptr<Bound>;

// Room that a write has claimed, until its object is counted.
class BoundClaim {
 public:
  BoundClaim() = default;
  BoundClaim(BoundPtr bound, uint64_t bytes, uint64_t objects)
      : bound_(std::move(bound)), bytes_(bytes), objects_(objects) {}
  BoundClaim(BoundClaim&& other) noexcept { *this = std::move(other); }
  BoundClaim& operator=(BoundClaim&& other) noexcept {
    release();
    bound_ = std::move(other.bound_);
    bytes_ = other.bytes_;
    objects_ = other.objects_;
    return *this;
  }
  ~BoundClaim() { release(); }

 private:
  void release() {
    if (bound_ != nullptr) bound_->release(bytes_, objects_);
    bound_.reset();
  }
  BoundPtr bound_;
  uint64_t bytes_ = 0, objects_ = 0;
};

// The bounds of buckets by their documents. Thread-safe. One entry per bounded bucket in use.
class BucketBounds {
 public:
  // corrupt_object.
  Result<BoundPtr> of(const std::string& bucket, int64_t created_us, const std::string& owner,
                      const store::Document& text);
  std::vector<BoundPtr> all();
  // Called when a bucket fills, on any thread and under no lock of a Bound. Set before the first request.
  void on_filling(std::function<void()> wake) { wake_ = std::move(wake); }

 private:
  std::mutex mutex_;
  std::function<void()> wake_ = [] {};
  std::unordered_map<std::string, BoundPtr> bounds_;
};

void register_bound_metrics();  // told from the start on

// Room for a write, after evictions if need be. insufficient_storage: everything is pinned, or the object is larger
// than the bound; slow_down: evictions took too long.
Task<Result<BoundClaim>> claim_room(BoundPtr bound, uint64_t bytes, uint64_t objects);

}  // namespace verbena::s3
