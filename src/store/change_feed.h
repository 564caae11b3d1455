// The changes of a bucket's keys, reported to listeners at the moment when they become visible.
//
// Reporting never waits: an engine calls listeners from inside its commits, under its locks, and a listener only takes
// note. Without a listener a change costs one load.
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
  created = 1,       // a new current object: PUT, POST, copy, a completed upload; or an older version again
  appended = 2,      // bytes were added at its end
  removed = 3,       // the object is gone, or the named version
  marked = 4,        // a delete marker is the newest version, so there is no current object
  changed = 5,       // tags, ACL or lock changed; the bytes are the same
  renamed_away = 6,  // the object has another key now
  renamed_here = 7,  // the object came from another key
  evicted = 8,       // removed to make room in a bounded bucket
};

// Numbers as in ObjectInfo. `time_us`: when the current object was written; if none is left, when it was removed.
struct KeyChange {
  KeyEvent what{};
  std::string key, version_id, etag;
  uint64_t size = 0;
  int64_t time_us = 0;
  int64_t end_us = 0;  // of the object's life (ends.h); 0: none
  // True: only noncurrent versions or delete markers changed. Hidden from clients that may not see versions.
  bool of_versions = false;
};
using KeyChangePtr = std::shared_ptr<const KeyChange>;

// `bucket` identifies one bucket: a later bucket of the same name has another. Called on any thread, under locks: a
// listener must not wait, nor call a store or a feed; nor may its destructor.
class ChangeListener {
 public:
  virtual ~ChangeListener() = default;
  virtual void told(uint64_t bucket, const KeyChangePtr& change) = 0;  // per key, in the order of the commits
  virtual void lost_track(uint64_t bucket) = 0;                        // changes may have been missed
  virtual void bucket_removed(uint64_t bucket) = 0;                    // the last call for this bucket
  // False: it keeps no change beyond told(). Constant. Where that holds for all listeners, no change costs memory.
  virtual bool keeps_changes() const { return true; }
};

// The feed of one bucket. Thread-safe.
class BucketFeed {
 public:
  BucketFeed(uint64_t bucket, int64_t created_us, std::string owner)
      : bucket_(bucket), created_us_(created_us), owner_(std::move(owner)) {}
  uint64_t bucket() const { return bucket_; }
  // Whether the feed belongs to that bucket, among those that have had its name.
  bool is_of(int64_t created_us, std::string_view owner) const { return created_us == created_us_ && owner == owner_; }

  // Reports everything committed after listen() to the listener. False: the bucket is gone. Expired listeners are
  // skipped.
  bool listen(const std::shared_ptr<ChangeListener>& listener);
  void stop_listening(const ChangeListener& listener);

  bool wanted() const { return listeners_count_.load() != 0; }

  // Reports a change that is in the catalogue now. `of_versions` as in KeyChange.
  void tell(KeyEvent what, std::string_view key, const ObjectInfo& info, bool of_versions = false) {
    if (wanted()) tell_all(what, key, info, of_versions, /*by_catalogue=*/true);
  }
  // Reports a change that is acknowledged before the catalogue has it. Returns committed() as of this report: if the
  // catalogue has reported changes since, the object overtook them and is reported again when it is committed.
  uint64_t tell_early(std::string_view key, const ObjectInfo& info) {
    if (!wanted()) return committed(key);
    return tell_all(KeyEvent::created, key, info, /*of_versions=*/false, /*by_catalogue=*/false);
  }
  // How many changes of this key, and of some others, were reported from the catalogue.
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
  // One counter per hash of a key. Written under the mutex together with the report: an early report between a change
  // and its count would otherwise take that change for an earlier one.
  std::array<std::atomic<uint64_t>, counts> committed_{};
  // Held during a report, so that all listeners see one order.
  std::mutex mutex_;
  struct Listening {
    std::weak_ptr<ChangeListener> listener;
    bool keeps = true;  // ChangeListener::keeps_changes()
  };
  std::vector<Listening> listeners_;
  KeyChange not_kept_;  // the change that is being reported, if no listener keeps it
  bool ended_ = false;
};
using BucketFeedPtr = std::shared_ptr<BucketFeed>;

// The feeds of an engine that reports changes.
class ChangeFeeds {
 public:
  virtual ~ChangeFeeds() = default;
  // no_such_bucket; not_implemented: the engine does not see the changes that other processes make.
  virtual Result<BucketFeedPtr> feed(std::string_view bucket) = 0;
};

}  // namespace verbena::store
