// The watches of the sessions on one endpoint: who is told what becomes of which keys.
//
// Commits leave notes, on whatever threads they run; the endpoint's core reads them, finds the watches by the prefixes
// of the key, and puts the change into their queues. A client asks ahead (WATCH_NEXT) and is answered when there is
// something. Who does not ask has a queue that fills; then it is emptied, and the next answer says that there is a gap.
// So nobody who writes, and nobody else who is told, ever waits for him. Who has not asked for long has no queue, and
// in the end no watch.
//
// All on the core's thread, but what a ChangeListener is told.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "native/lane.h"
#include "native/op.h"
#include "native/watch_limits.h"
#include "native/watch_notes.h"
#include "s3/objects/watch.h"
#include "store/change_feed.h"

namespace verbena::native {

class Endpoint;
struct DoorState;

class KeyWatches final : public store::ChangeListener, public std::enable_shared_from_this<KeyWatches> {
 public:
  static constexpr uint64_t queue_bytes_max = 1 * MiB;  // of one watch
  static constexpr uint64_t notes_bytes_max =
      4 * MiB;  // of changes that the core has not looked at yet, half a bucket's

  KeyWatches(Endpoint& endpoint, std::shared_ptr<DoorState> door);
  ~KeyWatches() override;

  // The requests. All answer, begin() when the right has been asked for.
  static Task<void> begin(std::shared_ptr<KeyWatches> self, OpPtr op);
  void next(OpPtr op);
  void end(OpPtr op);
  std::string bucket_of(const Lane& lane, uint64_t watch) const;  // empty: it has none of that number

  // A slice of what is to be done; busy() says whether there is more.
  void pump();
  bool busy() const { return !taken_.done() || !ready_.empty() || notes_.any(); }
  void forget(Lane& lane);
  // Once a second: who has waited for long enough is answered, who may not be told any more is told that, and what
  // nobody asks of is let go.
  void sweep();
  // Nothing is told any more. Any thread.
  void close();

  void told(uint64_t bucket, const store::KeyChangePtr& change) override;
  void lost_track(uint64_t bucket) override;
  void bucket_removed(uint64_t bucket) override;

 private:
  struct Watch;
  using WatchPtr = std::shared_ptr<Watch>;
  // Watches by the beginning of their prefix, and these by their length: a key has one of each, and there are few
  // lengths (indexed_length()), whatever prefixes people think of.
  struct BucketWatches {
    store::BucketFeedPtr feed;
    std::map<size_t, std::unordered_map<std::string_view, std::vector<WatchPtr>>> by_length;
    size_t count = 0;
  };

  void call_core();
  void wake();
  Result<WatchPtr> make(Op& op, s3::WatchRight right);
  Result<BucketWatches*> listen(const store::BucketFeedPtr& feed);
  WatchPtr find(const Lane& lane, uint64_t watch) const;
  void forget(const WatchPtr& watch);

  size_t deliver_next();
  static size_t each_of(BucketWatches& bucket, void (KeyWatches::*visit)(Watch&), KeyWatches& self);
  size_t deliver(BucketWatches& bucket, const store::KeyChangePtr& change);
  void push(Watch& watch, const store::KeyChangePtr& change);
  void empty(Watch& watch);
  void let_go(Watch& watch);
  void finish(Watch& watch, Errc why);
  void bucket_ended(Watch& watch) { finish(watch, Errc::no_such_bucket); }
  void acknowledge(Watch& watch, uint64_t seen);
  void mark_ready(Watch& watch);

  void answer(const WatchPtr& watch, bool just_asked = false);
  void answer_code(Watch& watch, Errc code);
  static void tell(Op& op, Watch& watch);

  // Rights are asked for by one coroutine, which lets others have the core, and once for all that ask the same.
  struct Round;
  bool is_fresh(const Watch& watch, bool just_asked) const;
  void want_right(const WatchPtr& watch);
  static Task<void> ask_all(std::shared_ptr<KeyWatches> self);
  Task<void> ask(WatchPtr watch, Round& round);

  Endpoint& endpoint_;
  std::weak_ptr<Endpoint> alive_;
  const std::shared_ptr<DoorState> door_;
  std::unordered_map<uint64_t, WatchPtr> watches_;
  std::unordered_map<uint64_t, BucketWatches> buckets_;  // by the feed's number
  uint64_t last_id_ = 1;
  WatchNotes::Taken taken_;  // of which the rest is to be delivered
  std::deque<WatchPtr> ready_;
  std::deque<WatchPtr> asks_;
  bool asker_runs_ = false;
  WatchNotes notes_;
};

}  // namespace verbena::native
