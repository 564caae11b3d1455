// Objects that an engine acknowledges before its catalogue has them (store/local: small objects of `memory` buckets,
// and with persistent memory of `sync` buckets). Reads ask here first; before a change of a key, its acknowledged
// objects are brought into the catalogue.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/task.h"
#include "store/catalogue.h"
#include "store/logic/bucket.h"

namespace verbena::store {

class Early {
 public:
  virtual ~Early() = default;

  // The largest object of the bucket that may be acknowledged early; 0: none may. Cheap; put() decides.
  virtual size_t size_max(const Bucket& bucket) const = 0;
  // Whether the bucket may have acknowledged objects that the catalogue does not have.
  static bool holds_any(const Bucket& bucket) { return bucket.acknowledged.load(std::memory_order_acquire) != 0; }

  // Takes the object and returns what was stored; nullopt: declined, and nothing was taken. `bytes` is one piece of
  // info.size bytes.
  virtual std::optional<ObjectInfo> put(const std::shared_ptr<const Bucket>& bucket, std::string_view key,
                                        ObjectInfo& info, memory::Chunk& bytes) = 0;
  // The newest object of the key that the catalogue does not have yet, or null.
  virtual std::shared_ptr<ObjectReader> open(const Bucket& bucket, std::string_view key) const = 0;
  virtual std::optional<ObjectInfo> stat(const Bucket& bucket, std::string_view key) const = 0;
  // The rows and what they do not have yet of the bucket, as of one moment: what open() and stat() would find then of
  // all keys. `rows` outlives it.
  virtual std::unique_ptr<Moment> moment(const Bucket& bucket, View& rows) const = 0;
  // Waits until everything acknowledged of the key, or of the bucket, before the call is in the catalogue. slow_down:
  // it takes too long, as on a full disk.
  virtual Task<Result<void>> settle(std::shared_ptr<const Bucket> bucket, std::string key) = 0;
  virtual Task<Result<void>> settle(std::shared_ptr<const Bucket> bucket) = 0;
  // Waits likewise, so that moment() has little to add, but neither for a disk that takes no writes nor for an object
  // that the catalogue refuses: moment() is right without it.
  virtual Task<void> thin_out(std::shared_ptr<const Bucket> bucket) = 0;

  // Commits a change that removes the key's current object, together with the acknowledged one that waits, which needs
  // no bytes in the catalogue then. The bucket has no versions. false: none waits any more, and nothing was done.
  virtual Task<Result<bool>> remove(std::shared_ptr<const Bucket> bucket, std::string key, Judge removal) = 0;

  // Makes put() decline for its bucket while it lives: for changes of the bucket itself. settle() is called after it.
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
  virtual void shut(const Bucket& bucket, bool is) = 0;  // calls nest
};

}  // namespace verbena::store
