// What becomes of a bucket's keys, told to those who listen at the moment when everybody can see it.
//
// Nobody waits for anybody: an engine tells from inside its commits, under its locks, and a listener only takes note.
// Without a listener a change costs one look at a number.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace verbena::store {

enum class KeyEvent : uint8_t {
  created = 1,       // there is a new current object: PUT, POST, copy, a completed upload; or an older version again
  appended = 2,      // bytes came to its end
  removed = 3,       // the object is gone, or the version that is named
  marked = 4,        // a delete marker is the newest version now, so that there is no object
  changed = 5,       // tags, list, lock: the bytes are the same
  renamed_away = 6,  // the object has another key now
  renamed_here = 7,  // the object came from another key
};

// Numbers as ObjectInfo has them. `time_us`: when what is there was written; where nothing is left there, when it went.
struct KeyChange {
  KeyEvent what{};
  std::string key, version_id, etag;
  uint64_t size = 0;
  int64_t time_us = 0;
  // Only versions that are not current, or delete markers, have changed: nothing to tell to who may not know of them.
  bool of_versions = false;
};
using KeyChangePtr = std::shared_ptr<const KeyChange>;

// `bucket` is never that of another bucket, also not of one that has its name later. Called on any thread, under locks:
// must not wait, nor call a store or a feed; nor may its destructor.
class ChangeListener {
 public:
  virtual ~ChangeListener() = default;
  virtual void told(uint64_t bucket, const KeyChangePtr& change) = 0;  // of a key, in the order of the commits
  virtual void lost_track(uint64_t bucket) = 0;                        // something changed that cannot be told
  virtual void bucket_removed(uint64_t bucket) = 0;                    // the last that is told of it
};

// Of one bucket. Thread-safe.
class BucketFeed {
 public:
  BucketFeed(uint64_t bucket, int64_t created_us, std::string owner)
      : bucket_(bucket), created_us_(created_us), owner_(std::move(owner)) {}
  uint64_t bucket() const { return bucket_; }
  // Whether it is that bucket's, among those that had its name in time.
  bool is_of(int64_t created_us, std::string_view owner) const { return created_us == created_us_ && owner == owner_; }

  // What is committed after listen() is told. False: the bucket is gone. Listeners that no longer exist are passed
  // over.
  bool listen(const std::shared_ptr<ChangeListener>& listener);
  void stop_listening(const ChangeListener& listener);

  bool wanted() const { return listeners_count_.load() != 0; }

  // By a change that is in the catalogue now. `of_versions` as in KeyChange.
  void tell(KeyEvent what, std::string_view key, const ObjectInfo& info, bool of_versions = false) {
    if (wanted()) tell_all(what, key, info, of_versions, /*by_catalogue=*/true);
  }
  // By one that was acknowledged before the catalogue has it: gives back committed(), as it was when this was told.
  // Where the catalogue has told of changes since then, the object is told once more when it comes there: it overtook
  // them.
  uint64_t tell_early(std::string_view key, const ObjectInfo& info) {
    if (!wanted()) return committed(key);
    return tell_all(KeyEvent::created, key, info, /*of_versions=*/false, /*by_catalogue=*/false);
  }
  // How many changes of this key, and of some others, the catalogue has told.
  uint64_t committed(std::string_view key) const { return committed_[count_of(key)].load(); }
  void lose_track();
  void end();  // the bucket is gone

 private:
  static constexpr size_t counts = 32;
  static size_t count_of(std::string_view key) { return std::hash<std::string_view>{}(key) % counts; }
  uint64_t tell_all(KeyEvent what, std::string_view key, const ObjectInfo& info, bool of_versions, bool by_catalogue);
  void forget_gone();

  const uint64_t bucket_;
  const int64_t created_us_;
  const std::string owner_;
  std::atomic<uint32_t> listeners_count_{0};
  // Each key has one of them. Written under the mutex, with what is told: who is told early between a change and its
  // number would take that change for one that was told before.
  std::array<std::atomic<uint64_t>, counts> committed_{};
  // Held while something is told, so that all are told in one order.
  std::mutex mutex_;
  std::vector<std::weak_ptr<ChangeListener>> listeners_;
  bool ended_ = false;
};
using BucketFeedPtr = std::shared_ptr<BucketFeed>;

// What an engine that can tell has.
class ChangeFeeds {
 public:
  virtual ~ChangeFeeds() = default;
  // no_such_bucket; not_implemented: the engine cannot tell what others do to it.
  virtual Result<BucketFeedPtr> feed(std::string_view bucket) = 0;
};

}  // namespace verbena::store
