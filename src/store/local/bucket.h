// A bucket as the running engine knows it. All buckets are in memory; the index has them for the next start.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "store/local/record.h"

namespace verbena::store::local {

// A bucket's documents, in memory. Thread-safe; a reader's document stays as it was when read.
class Documents {
 public:
  Result<Document> get(std::string_view name) const;  // not_found
  bool has_room(std::string_view name) const;         // for one of this name
  void set(std::string_view name, Document document);
  void remove(std::string_view name);

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, Document, std::less<>> documents_;
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
  // Of write_behind.h: keys whose newest object the index does not have yet; how many keep new ones out (guarded there).
  mutable std::atomic<uint32_t> acknowledged{0};
  mutable uint32_t shut = 0;

  void set(const BucketInfo& info) const;  // what may change of a bucket
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
};

}  // namespace verbena::store::local
