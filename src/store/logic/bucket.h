// A bucket as the running store knows it. All buckets are in memory; the catalogue has them for the next start.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "store/change_feed.h"
#include "store/logic/record.h"

namespace verbena::store {

using ByteCount = std::atomic<uint64_t>;

// Usage that one changes at a time and everybody reads: each number is as it was at some moment of the reading.
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

// Of all buckets of one owner.
struct OwnersUsage {
  LiveUsage committed, acknowledged;
  std::atomic<uint64_t> uncounted{0};  // buckets whose numbers are not known yet
};

// A bucket's documents. The small ones are in memory; of the large ones only how large they are, so that nobody's
// documents stay there for good. Thread-safe; a reader's document stays as it was when read.
class Documents {
 public:
  static constexpr size_t kept_max = 32 * KiB;  // bytes of one that is kept in memory

  Documents() = default;
  ~Documents();
  Documents(const Documents&) = delete;

  // Counts them among those of the bucket's owner. Before the first is set.
  void count_for(std::shared_ptr<ByteCount> owners) { owners_ = std::move(owners); }
  Result<Document> get(std::string_view name) const;  // not_found; null: it is in the index alone
  // Of one moment, in the order of the names; nullopt: there is none.
  std::vector<std::optional<Document>> get_all(std::span<const std::string_view> names) const;
  bool has_room(std::string_view name) const;  // for one of this name
  void set(std::string_view name, Document document);
  void remove(std::string_view name);
  void replace_all(std::map<std::string, Document, std::less<>> documents);  // at one moment
  std::vector<std::string> names() const;

 private:
  friend class DocumentRoom;
  struct Entry {
    uint64_t size = 0;
    Document document;  // null: too large to be kept
  };
  uint64_t size_of(std::string_view name) const;
  mutable std::shared_mutex mutex_;
  std::map<std::string, Entry, std::less<>> documents_;
  std::shared_ptr<ByteCount> owners_ = std::make_shared<ByteCount>(0);
};

// Room among the documents of a bucket's owner for one that is about to be set. Given back when it is set or refused.
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
  uint64_t id = 0;  // never used again, so a bucket of the same name made later shares nothing with this one
  std::string name;
  int64_t created_us = 0;
  std::string owner;
  mutable std::atomic<Durability> durability{Durability::sync};
  // For calls that read; a mutation asks the bucket's record.
  mutable std::atomic<Versioning> versioning{Versioning::off};
  mutable std::atomic<BucketLock> lock{};
  mutable Documents documents;
  // Of early.h: keys whose newest object the catalogue does not have yet; how many keep new ones out (guarded there).
  mutable std::atomic<uint32_t> acknowledged{0};
  mutable uint32_t shut = 0;
  // What committed changes made of it; `uncounted`: since the start of the server. Of those keys of early.h: what they
  // hold, besides what the catalogue has of them.
  mutable LiveUsage committed, acknowledged_usage;
  mutable std::atomic<bool> uncounted{false};
  std::shared_ptr<OwnersUsage> owners = std::make_shared<OwnersUsage>();
  BucketFeedPtr feed;  // who wants to know what becomes of its keys

  void set(const BucketInfo& info) const;  // what may change of a bucket
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

// Thread-safe.
class Buckets {
 public:
  std::shared_ptr<const Bucket> find(std::string_view name) const;  // null: no such bucket
  std::vector<BucketInfo> list() const;                             // by name
  std::vector<std::shared_ptr<const Bucket>> all() const;           // by name
  void add(const BucketRecord& record);
  void remove(std::string_view name);

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<const Bucket>, std::less<>> buckets_;
  std::map<std::string, std::shared_ptr<ByteCount>> document_bytes_;  // by owner
  std::map<std::string, std::shared_ptr<OwnersUsage>> usage_;         // likewise
};

}  // namespace verbena::store
