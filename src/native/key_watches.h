// The watches of the sessions on one endpoint: which changes are reported to which clients.
//
// Commits leave notes, on any thread; the endpoint's core reads them, finds the watches by the key's prefixes, and
// queues the change for them. A client sends requests ahead (WATCH_NEXT), which are answered when there are changes. If
// a client sends none its queue fills up; then it is emptied, and the next answer reports a gap. So neither writers nor
// other watchers ever wait for a client. After a while without requests a watch has no queue, and in the end it is
// removed.
//
// All on the core's thread, except the calls of a ChangeListener.
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

#include "native/op.h"
#include "native/session_stream.h"
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
      4 * MiB;  // of changes that the core has not read yet, half for one bucket

  KeyWatches(Endpoint& endpoint, std::shared_ptr<DoorState> door);
  ~KeyWatches() override;

  // The requests. Each is answered; begin() answers after authorization.
  static Task<void> begin(std::shared_ptr<KeyWatches> self, OpPtr op);
  void next(OpPtr op);
  void end(OpPtr op);
  std::string bucket_of(const SessionStream& stream, uint64_t watch) const;  // empty: no watch of that number

  // Processes a slice of the pending work; busy() shows whether there is more.
  void pump();
  bool busy() const { return !taken_.done() || !ready_.empty() || notes_.any(); }
  void forget(SessionStream& stream);
  // Once a second: answers requests that have waited long enough, ends watches without rights, and removes unused ones.
  void sweep();
  // Stops all reports. Any thread.
  void close();

  void told(uint64_t bucket, const store::KeyChangePtr& change) override;
  void lost_track(uint64_t bucket) override;
  void bucket_removed(uint64_t bucket) override;

 private:
  struct Watch;
  using WatchPtr = std::shared_ptr<Watch>;
  // Watches by the beginning of their prefix, grouped by its length: a key has one beginning for each length, and there
  // are few lengths (indexed_length()), whatever prefixes clients choose.
  struct BucketWatches {
    store::BucketFeedPtr feed;
    std::map<size_t, std::unordered_map<std::string_view, std::vector<WatchPtr>>> by_length;
    size_t count = 0;
  };

  void call_core();
  void wake();
  Result<WatchPtr> make(Op& op, s3::WatchRight right);
  Result<BucketWatches*> listen(const store::BucketFeedPtr& feed);
  WatchPtr find(const SessionStream& stream, uint64_t watch) const;
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
  OpPtr take_op(const Watch& watch, const wire::Header& asked);
  void answer_code(Watch& watch, Errc code);
  static void tell(Op& op, Watch& watch);

  // One pass of authorization: a coroutine that yields the core, with one evaluation for equal questions.
  struct Round;
  bool is_fresh(const Watch& watch, bool just_asked) const;
  bool is_current(const s3::WatchRight& right) const;
  void want_right(const WatchPtr& watch);
  static Task<void> ask_all(std::shared_ptr<KeyWatches> self);
  Task<void> ask(WatchPtr watch, Round& round);

  Endpoint& endpoint_;
  std::weak_ptr<Endpoint> alive_;
  const std::shared_ptr<DoorState> door_;
  std::unordered_map<uint64_t, WatchPtr> watches_;
  std::unordered_map<uint64_t, BucketWatches> buckets_;  // by the feed's number
  uint64_t last_id_ = 1;
  WatchNotes::Taken taken_;  // notes of which the rest is still to be delivered
  std::deque<WatchPtr> ready_;
  std::deque<WatchPtr> asks_;
  bool asker_runs_ = false;
  WatchNotes notes_;
};

}  // namespace verbena::native
