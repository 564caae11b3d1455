// What an engine may acknowledge before its catalogue has it (store/local writes small objects of `memory` buckets
// behind). Logic asks here first, and before a change lets what was acknowledged get into the catalogue.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/task.h"
#include "store/logic/bucket.h"

namespace verbena::store {

class Early {
 public:
  virtual ~Early() = default;

  // Of objects that may go this way: the largest.
  static constexpr size_t object_size_max = 1 * MiB;
  // True for a bucket whose objects may go this way at all. Cheap; put() decides.
  static bool suits(const Bucket& bucket) {
    return bucket.durability.load(std::memory_order_acquire) == Durability::memory &&
           bucket.versioning.load(std::memory_order_acquire) == Versioning::off;
  }
  // Something of the bucket may have been acknowledged that the catalogue does not have.
  static bool holds_any(const Bucket& bucket) { return bucket.acknowledged.load(std::memory_order_acquire) != 0; }

  // Takes the object and returns what was stored; nullopt: declined, and nothing was taken. `bytes` is one piece of
  // info.size bytes.
  virtual std::optional<ObjectInfo> put(const std::shared_ptr<const Bucket>& bucket, std::string_view key,
                                        ObjectInfo& info, memory::Chunk& bytes) = 0;
  // The newest of the key that the catalogue does not have yet, or null.
  virtual std::shared_ptr<ObjectReader> open(const Bucket& bucket, std::string_view key) const = 0;
  virtual std::optional<ObjectInfo> stat(const Bucket& bucket, std::string_view key) const = 0;
  // Returns when all that was acknowledged of the key, or of the bucket, before the call is in the catalogue. slow_down
  // when that takes too long, as it does when the disk is full.
  virtual Task<Result<void>> settle(std::shared_ptr<const Bucket> bucket, std::string key) = 0;
  virtual Task<Result<void>> settle(std::shared_ptr<const Bucket> bucket) = 0;

  // While one lives, put() declines for its bucket: for changes of what a bucket is. settle() comes after it.
  class Shut {
   public:
    Shut(Early* early, std::shared_ptr<const Bucket> bucket) : early_(early), bucket_(std::move(bucket)) {
      if (early_ != nullptr) early_->shut(*bucket_, true);
    }
    Shut(const Shut&) = delete;
    ~Shut() {
      if (early_ != nullptr) early_->shut(*bucket_, false);
    }
    void for_ever() { early_ = nullptr; }  // the bucket is gone

   private:
    Early* early_;
    std::shared_ptr<const Bucket> bucket_;
  };

 private:
  virtual void shut(const Bucket& bucket, bool is) = 0;  // as often open as shut
};

}  // namespace verbena::store
