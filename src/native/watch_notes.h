// Notes of commits in watched buckets that the endpoint's core has not read yet.
//
// Bounded, by bucket and together: when there is no more room, one bucket's notes are dropped, and the core learns of
// the gap. The bucket with the most notes is chosen, so that a flood in one leaves the others' notes alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "store/change_feed.h"

namespace verbena::native {

// The counted size of a change, wherever it waits.
inline uint64_t cost_of(const store::KeyChange& change) {
  return sizeof change + 32 + change.key.size() + change.version_id.size() + change.etag.size();
}

// Thread-safe.
class WatchNotes {
 public:
  // Of one bucket, in this order: a gap; then changes; then the bucket's end.
  struct Taken {
    uint64_t bucket = 0;
    bool lost = false, removed = false;
    std::vector<store::KeyChangePtr> changes;
    size_t next = 0;  // of them
    bool done() const { return !lost && !removed && next == changes.size(); }
  };

  // `call` is called under the lock, once, when notes arrive after was_called(); never after close().
  WatchNotes(uint64_t bytes_max, std::function<void()> call) : bytes_max_(bytes_max), call_(std::move(call)) {}

  // Notes of other buckets are ignored.
  void add_bucket(uint64_t bucket);
  void remove_bucket(uint64_t bucket);
  void told(uint64_t bucket, const store::KeyChangePtr& change);
  void lost_track(uint64_t bucket);
  void removed(uint64_t bucket);

  void was_called();
  bool any() const { return any_.load(std::memory_order_acquire); }
  // Takes at most `most` changes of one bucket, then the others have their turn. False: there are none. Taken ones no
  // longer count.
  bool take(Taken& into, size_t most);
  void close();
  uint64_t bytes() const;

 private:
  struct Inbox {
    std::deque<store::KeyChangePtr> changes;
    uint64_t bytes = 0;
    bool lost = false, removed = false;
    bool queued = false;  // in `turns_`
  };
  Inbox* find(uint64_t bucket);
  void lose(Inbox& inbox);
  void make_room(Inbox& inbox);
  void queue(uint64_t bucket, Inbox& inbox);

  const uint64_t bytes_max_;
  const std::function<void()> call_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Inbox> inboxes_;
  std::deque<uint64_t> turns_;  // buckets with notes
  uint64_t bytes_ = 0;
  bool called_ = false;
  bool closed_ = false;
  std::atomic<bool> any_{false};
};

}  // namespace verbena::native
