// A bucket in the running store. All buckets are in memory; the catalogue persists them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "store/change_feed.h"
#include "store/logic/record.h"

namespace verbena::store {

using ByteCount = std::atomic<uint64_t>;

// Usage with one writer and many readers: each number is consistent in itself, as of some moment of the read.
class LiveUsage {
 public:
  void add(const Usage& change) {
    for (size_t i = 0; i < Usage::member_count; ++i) {
      const uint64_t by = change.*Usage::members()[i];
      if (by != 0) cells_[i].fetch_add(by, std::memory_order_acq_rel);
    }
  }
  Usage read() const {
    Usage usage;
    for (size_t i = 0; i < Usage::member_count; ++i) {
      usage.*Usage::members()[i] = cells_[i].load(std::memory_order_acquire);
    }
    return usage;
  }

 private:
  std::array<std::atomic<uint64_t>, Usage::member_count> cells_{};
};

// The usage of all buckets of one owner.
struct OwnersUsage {
  LiveUsage committed, acknowledged;
  std::atomic<uint64_t> uncounted{0};  // buckets that are still being counted
};

// A bucket's documents. Small ones are in memory; of large ones only the size is, so that no owner's documents fill the
// memory. Thread-safe; a document once read does not change.
class Documents {
 public:
  static constexpr size_t kept_max = 32 * KiB;  // bytes of a document that is kept in memory

  Documents() = default;
  ~Documents();
  Documents(const Documents&) = delete;

  // Counts the documents towards the bucket owner's total. Called before the first is set.
  void count_for(std::shared_ptr<ByteCount> owners) { owners_ = std::move(owners); }
  struct Found {
    enum class Where : uint8_t { nowhere, in_memory, only_in_index } where = Where::nowhere;
    Document document{};  // if in memory
  };
  Found get(std::string_view name) const;
  // All as of one moment, in the order of the names.
  std::vector<Found> get_all(std::span<const std::string_view> names) const;
  bool has_room(std::string_view name) const;  // for a document of this name
  void set(std::string_view name, Document document);
  void remove(std::string_view name);
  void replace_all(std::map<std::string, Document, std::less<>> documents);  // atomically
  std::vector<std::string> names() const;

 private:
  friend class DocumentRoom;
  struct Entry {
    uint64_t size = 0;
    Document document;  // null: too large to be kept
  };
  Found find(std::string_view name) const;  // under the lock
  uint64_t size_of(std::string_view name) const;
  mutable std::shared_mutex mutex_;
  std::map<std::string, Entry, std::less<>> documents_;
  std::shared_ptr<ByteCount> owners_ = std::make_shared<ByteCount>(0);
};

// A reservation for a document that is about to be set, in the bucket owner's total. Released when it is set or
// refused.
class DocumentRoom {
 public:
  DocumentRoom(const Documents& documents, std::string_view name, uint64_t size);
  ~DocumentRoom();
  DocumentRoom(const DocumentRoom&) = delete;
  explicit operator bool() const { return fits_; }

 private:
  std::shared_ptr<ByteCount> owners_;
  uint64_t bytes_;
  bool fits_;
};

struct Bucket {
  uint64_t id = 0;  // never reused, so a later bucket of the same name shares nothing with this one
  std::string name;
  int64_t created_us = 0;
  std::string owner;
  mutable std::atomic<Durability> durability{Durability::sync};
  // For calls that read; a change uses the bucket's record instead.
  mutable std::atomic<Versioning> versioning{Versioning::off};
  mutable std::atomic<BucketLock> lock{};
  mutable Documents documents;
  // State of early.h (which guards it): the number of keys whose newest object the catalogue does not have yet, and of
  // holders that shut new ones out.
  mutable std::atomic<uint32_t> acknowledged{0};
  mutable uint32_t shut = 0;
  // Usage: by committed changes (`uncounted`: since the start of the server), and by the keys of early.h beyond what
  // the catalogue has of them.
  mutable LiveUsage committed, acknowledged_usage;
  mutable std::atomic<bool> uncounted{false};
  // Changes to Durability::sync after which not all bytes that were acknowledged before them are known to be durable.
  mutable std::atomic<uint32_t> unsettled{0};
  std::shared_ptr<OwnersUsage> owners = std::make_shared<OwnersUsage>();
  BucketFeedPtr feed;  // reports changes of its keys
  // Of store/ends.h: null if the engine keeps no ends.
  const WallClock* ends = nullptr;
  const std::function<bool()>* may_end = nullptr;  // Buckets::keep_ends()
  mutable std::atomic<int64_t> ended_us{0};        // the latest end that was found to have come

  // Whether the current object's end has come. An end that has come once has come for ever, whatever the clock does.
  bool is_gone(const ObjectInfo& info) const;
  // Whether an object may be given an end.
  bool takes_ends() const { return ends != nullptr && (*may_end)(); }
  // What a TTL counts from: not before an end that was told, or an object made after the clock was set back would be
  // gone at once.
  int64_t ttl_from(int64_t now_us) const { return std::max(now_us, ended_us.load(std::memory_order_relaxed)); }

  // Whether a power cut may take bytes that were acknowledged. In this order: `unsettled` is counted before the change.
  bool may_lose_bytes() const { return durability.load() == Durability::memory || unsettled.load() != 0; }

  void set(const BucketInfo& info) const;  // updates the mutable settings
  void count(const Usage& change) const {
    committed.add(change);
    owners->committed.add(change);
  }
  void count_acknowledged(const Usage& change) const {
    acknowledged_usage.add(change);
    owners->acknowledged.add(change);
  }
  void set_uncounted(bool is) const {
    if (uncounted.exchange(is) != is) owners->uncounted.fetch_add(is ? 1 : uint64_t(0) - 1);
  }
  UsageNow usage_now() const;
  BucketInfo info() const { return {name, created_us, owner, durability.load(), versioning.load(), lock.load()}; }
};

class BucketRoom;

// Thread-safe.
class Buckets {
 public:
  // Objects of buckets that are added from here on may have an end, by this clock. They are given one as long as
  // `allowed` says so, which is called by any thread.
  void keep_ends(const WallClock& clock, std::function<bool()> allowed = [] { return true; }) {
    ends_ = &clock;
    may_end_ = std::move(allowed);
  }
  bool keeps_ends() const { return ends_ != nullptr && may_end_(); }
  std::shared_ptr<const Bucket> find(std::string_view name) const;  // null: no such bucket
  std::shared_ptr<const Bucket> find_id(uint64_t id) const;         // likewise
  std::vector<BucketInfo> list() const;                             // by name
  std::vector<BucketInfo> of(const OwnersBuckets& which) const;     // by name; takes as long as its page
  std::vector<std::shared_ptr<const Bucket>> all() const;           // by name
  void add(const BucketRecord& record);
  void remove(std::string_view name);

 private:
  friend class BucketRoom;
  struct Owner {
    std::shared_ptr<ByteCount> document_bytes = std::make_shared<ByteCount>(0);
    std::shared_ptr<OwnersUsage> usage = std::make_shared<OwnersUsage>();
    std::map<std::string_view, std::shared_ptr<const Bucket>> buckets{};  // the names are in the buckets
    std::map<std::string, size_t, std::less<>> rooms{};  // for buckets that are being created, by name: how many
    // One name is one bucket, however many create it, and also when it is there and its creator does not know it yet.
    bool has_room_for_one(uint64_t max) const;
  };
  const WallClock* ends_ = nullptr;
  std::function<bool()> may_end_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<const Bucket>, std::less<>> buckets_;
  std::map<uint64_t, std::shared_ptr<const Bucket>> by_id_;  // the same
  std::map<std::string, Owner, std::less<>> owners_;         // likewise; of every owner that there was
};

// Room for one more bucket of its owner, until it is there or was refused: however many are created at once, no owner
// gets more than `max`. Outlived by the buckets.
class BucketRoom {
 public:
  BucketRoom(Buckets& buckets, std::string owner, std::string name, uint64_t max);
  ~BucketRoom();
  BucketRoom(const BucketRoom&) = delete;
  explicit operator bool() const { return is_there_; }

 private:
  Buckets& buckets_;
  const std::string owner_, name_;
  bool is_there_ = false;
};

}  // namespace verbena::store
