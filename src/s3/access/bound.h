// Bounded buckets: a bucket with a bound on its objects or bytes evicts instead of refusing writes. For caches.
//
// A Bound learns of each change of its bucket from the engine's change feed, so its account is exact for writes of
// every door. A write claims room when its bytes have arrived, so that a client that sends none evicts nothing, and
// holds the claim until it is counted: contents and claims together never exceed the bound. The worker
// (s3/workers/bounds_worker.h) evicts ahead of the claims; a write that finds no room waits for it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "s3/access/bound_claims.h"
#include "s3/access/eviction_order.h"
#include "s3/access/order_memory.h"
#include "s3/service.h"
#include "store/change_feed.h"
#include "store/removal_grounds.h"

namespace verbena::s3 {

inline constexpr std::string_view bound_document = store::bounding_document;  // of a bucket
// Of one bounded bucket. All buckets' orders of eviction share a sum of memory, too (order_memory.h).
inline constexpr uint64_t bounded_objects_max = 4 * 1024 * 1024;

inline constexpr std::string_view keep_suffix_default = "/namespace.json";
inline constexpr size_t keep_suffix_size_max = 128;

struct BoundSettings {
  uint64_t bytes_max = 0, objects_max = 0;  // 0: not limited
  EvictionPolicy policy = EvictionPolicy::s3_fifo;
  bool renew_on_read = false;  // a read renews the TTL of its object
  // Objects whose keys end with it are not evicted, as long as they are few: descriptions of namespaces of a cache.
  // Empty: there are none.
  std::string keep_suffix{keep_suffix_default};
  bool operator==(const BoundSettings&) const = default;

  bool is_limited() const { return bytes_max != 0 || objects_max != 0; }
  uint64_t most_bytes() const { return bytes_max == 0 ? UINT64_MAX : bytes_max; }
  // A sixteenth of the bound at most is kept.
  EvictionOrder::Kept kept() const { return kept_of(most_objects()); }
  EvictionOrder::Kept kept_of(uint64_t objects) const;  // if it may have so many
  uint64_t most_objects() const { return objects_max == 0 ? bounded_objects_max : objects_max; }
};
// malformed_xml, invalid_argument.
Result<BoundSettings> parse_bound(std::string_view xml);
std::string bound_xml(const BoundSettings& settings);

class Bound final : public store::ChangeListener {
 public:
  Bound(std::string bucket, int64_t created_us, std::string owner, BoundSettings settings,
        std::function<void()> wake_worker, OrderMemory::BucketPtr memory = nullptr)
      : bucket_(std::move(bucket)),
        created_us_(created_us),
        owner_(std::move(owner)),
        wake_worker_(std::move(wake_worker)),
        memory_(std::move(memory)),
        settings_(std::move(settings)),
        order_(settings_.policy, settings_.kept(), OrderShare(memory_)),
        removed_memory_(memory_),
        due_memory_(memory_),
        renews_(settings_.renew_on_read) {}

  const std::string& bucket() const { return bucket_; }
  int64_t created_us() const { return created_us_; }
  const std::string& owner() const { return owner_; }
  BoundSettings settings() const;
  void change(const BoundSettings& settings, store::Document document = nullptr);
  void withdraw();  // it holds no longer: no write waits for it
  // The document of these settings: evictions by another one are refused at their commit.
  void decided_by(store::Document document);

  // For writes. `full`: a look of the worker that began after the first refusal found everything pinned. `wait`: the
  // worker is evicting. Room is kept for the write that waits longest. `never`: larger than the bound.
  enum class Room : uint8_t { claimed, wait, full, never };
  Room claim(BoundWish& wish);
  Result<void> check_size(uint64_t bytes) const;  // insufficient_storage: larger than the bound
  void release(BoundWish& wish);
  // For a read of a current object, which saw `seen`. Never waits for the order: the note of a moment of contention is
  // lost to it. The TTL is renewed if it is due.
  void note_read(std::string_view key, const store::ObjectInfo& seen, const WallClock& clock);

  // For the worker. False: the order must be loaded, from the listing.
  bool is_loaded() const;
  bool is_gone() const;
  // What it has in memory is beyond its part: then its load evicts the oldest that it has listed.
  bool is_crowded() const { return memory_ != nullptr && memory_->is_crowded(); }
  OrderShare more_memory() const { return OrderShare(memory_); }  // for objects that its load has listed
  store::Document document() const;
  bool is_loading() const;     // false: a load that has begun is void, or complete
  EvictionOrder begin_load();  // returns what was the order
  // Takes those of the listed objects into the order that are never evicted, and leaves the others. False: the load is
  // void.
  bool add_kept(std::vector<EvictionOrder::Object>& listed);
  // Objects that are older than all others. False: the load is void.
  bool add_loaded(std::vector<EvictionOrder::Object> older);
  void end_load();
  // At most `max` objects to evict, if it is too full. All are settled before the next call. Also arranges some of what
  // was ordered by other settings. A bounded number of steps: `more` is to be done by the next call.
  struct Victims {
    std::vector<EvictionOrder::Object> objects{};
    bool more = false;
    store::Document decided_by{};
    bool early = false;  // within the bound, but the order's memory is used up
  };
  Victims victims(size_t max);
  // `done`: the outcome of each. What was evicted has left already, when the engine told of it.
  void settle(std::span<const EvictionOrder::Object> victims, const std::vector<Result<void>>& done);
  // What is left of it in memory once it was withdrawn, to be destroyed in steps.
  EvictionOrder take_order();
  uint64_t objects_allowed() const;                    // by its settings and the memory of its order
  void correct(const EvictionOrder::Object& real);     // of a victim, before it is settled
  std::vector<std::string> take_due_keys(size_t max);  // whose TTL is to be renewed
  struct Held {
    uint64_t bytes = 0, objects = 0;
  };
  Held held() const;

  void told(uint64_t bucket, const store::KeyChangePtr& change) override;
  void lost_track(uint64_t bucket) override;
  void bucket_removed(uint64_t bucket) override;
  bool keeps_changes() const override { return false; }

 private:
  uint64_t most_objects() const { return most_objects(order_.objects()); }
  uint64_t most_objects(uint64_t of_memory) const;
  bool exceeds(uint64_t bytes, uint64_t objects) const;
  bool has_room(const BoundRoom& for_it, const BoundRoom& kept) const;
  Room refuse(BoundWish& wish, const BoundRoom& need);
  BoundRoom wanted() const;  // by those that wait, within reason
  // Whether less than that `part` of the room that is kept free is left, once the leaving ones have left.
  bool is_filling(uint64_t leaving_bytes, uint64_t leaving_objects, uint64_t part) const;
  bool is_pinned(std::string_view key);  // at a look of the worker
  void begin_look();
  void note_removed(const std::string& key);

  const std::string bucket_;
  const int64_t created_us_;
  const std::string owner_;
  const std::function<void()> wake_worker_;
  const OrderMemory::BucketPtr memory_;  // null: not limited
  mutable std::mutex mutex_;
  BoundSettings settings_;
  store::Document document_;
  EvictionOrder order_;
  EvictionOrder::Object told_;  // the object that told() is told of
  BoundClaims claims_;
  uint64_t looks_ = 0,
           all_pinned_at_ = 0;  // of the worker; and the last that found everything pinned, 0: changed since
  bool look_goes_on_ = false, passed_over_ = false;  // of the look: its next call; it met objects being written
  bool loaded_ = false, loading_ = false, gone_ = false;
  std::unordered_set<std::string> removed_while_loading_;
  OrderShare removed_memory_;
  std::mutex due_mutex_;  // taken alone
  std::unordered_set<std::string> due_keys_;
  OrderShare due_memory_;
  std::atomic<bool> renews_;
};
using BoundPtr = std::shared_ptr<Bound>;

// Room that a write has claimed, until its object is counted.
class BoundClaim {
 public:
  BoundClaim() = default;
  BoundClaim(BoundPtr bound, BoundWish wish)
      : bound_(std::move(bound)), wish_(std::make_unique<BoundWish>(std::move(wish))) {}
  BoundClaim(BoundClaim&& other) noexcept = default;
  BoundClaim& operator=(BoundClaim&& other) noexcept {
    release();
    bound_ = std::move(other.bound_);
    wish_ = std::move(other.wish_);
    return *this;
  }
  ~BoundClaim() { release(); }

  BoundWish& wish() { return *wish_; }

 private:
  void release() {
    if (bound_ != nullptr) bound_->release(*wish_);
    bound_.reset();
  }
  BoundPtr bound_;
  std::unique_ptr<BoundWish> wish_;
};

// The bounds of buckets by their documents. Thread-safe. One entry per bounded bucket in use, and for some that were
// bounded.
class BucketBounds {
 public:
  static constexpr uint64_t memory_default = 256 * MiB;
  // `memory_max`: of all buckets' orders.
  explicit BucketBounds(uint64_t memory_max = memory_default) : memory_(memory_max) {}
  // `generation`: the bucket's of AccessGeneration, from before the bucket and the document were read. An older one
  // than that of the last call for the bucket changes nothing. corrupt_object.
  Result<BoundPtr> of(const std::string& bucket, int64_t created_us, const std::string& owner,
                      const store::Document& text, uint64_t generation);
  std::vector<BoundPtr> all();
  // Those that hold no longer, each once: the worker destroys what they have in memory.
  std::vector<BoundPtr> take_withdrawn();
  uint64_t memory_bytes() const { return memory_.bytes(); }
  // Called when a bucket fills, on any thread and under no lock of a Bound. Set before the first request.
  void on_filling(std::function<void()> wake) { wake_ = std::move(wake); }

 private:
  struct Known {
    BoundPtr bound{};  // null: not bounded any more
    uint64_t generation = 0;
  };
  static constexpr size_t unbounded_max = 4096;
  void forget_unbounded();
  void withdraw(BoundPtr bound);

  OrderMemory memory_;
  std::mutex mutex_;
  std::function<void()> wake_ = [] {};
  std::vector<BoundPtr> withdrawn_;
  std::unordered_map<std::string, Known> bounds_;
  size_t unbounded_ = 0;  // at most; of these
};

void register_bound_metrics();  // told from the start on

// Room for a write, after evictions if need be. insufficient_storage: everything is pinned, or the object is larger
// than the bound; slow_down: evictions took too long.
inline constexpr std::chrono::seconds room_wait_max{30};
Task<Result<BoundClaim>> claim_room(BoundPtr bound, BoundWish wish, std::chrono::seconds wait_max = room_wait_max);

// Whether the write's conditions refuse it already; the commit decides. no_such_key, precondition_failed,
// invalid_write_offset.
Task<Result<void>> look_at_conditions(Service& service, std::string bucket, std::string key,
                                      store::CommitConditions conditions);

}  // namespace verbena::s3
