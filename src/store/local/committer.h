// Group commit, and the one place where the index changes. Mutations wait in a queue; its thread takes all that wait,
// makes their data durable with an fdatasync per volume (and once more that of what came meanwhile), evaluates each
// one's conditions in order against the index and those before it, writes one batch with one log sync, answers all.
//
// If a mutation says that more follow, its group is written piece by piece as they arrive, with one log sync at the
// end. Until then Visible::durable shows a snapshot from before the first piece.
//
// There are two queues: `durable`, and `written_behind` for buckets with Durability::memory, which neither syncs nor
// waits for syncs of the other. Conditions are evaluated and batches written under one mutex, which makes "one owner
// per key" hold; it is not held while the log is synced. What the durable queue has written is hidden until then from
// calls that read (Visible::durable); the other queue's conditions, which are on keys of other buckets, may see it.
// When a bucket changes its durability, its queued mutations move to the other queue, so that a key always belongs to
// one queue.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/task.h"
#include "base/ticks.h"
#include "store/local/catalogue.h"
#include "store/local/garbage.h"
#include "store/local/index.h"
#include "store/local/volume.h"
#include "store/logic/bucket.h"

namespace verbena::store::local {

class VolumeBlobWriter;

struct Mutation {
  Judge judge;                             // on the queue's thread, once
  std::shared_ptr<VolumeBlobWriter> blob;  // its records go into the batch; null: none
  std::vector<Run> runs;                   // named by the index if this succeeds; owned by the committer from here on
  std::shared_ptr<const Bucket> bucket;    // decides the queue; null: durable
  bool takes_space = false;                // refused when the disk is nearly full; deletes are not
  bool more_follow = false;                // Change::more_follow
  bool written_behind = false;             // brings in an acknowledged object: never in one group with other changes
};

class Committer {
 public:
  struct Options {
    const WallClock* clock = nullptr;
    std::function<uint64_t()> next_id;
    size_t queue_max = 4096;
    size_t group_max = 256;
    // Limits of a group that more mutations follow: how many are written at once, and how long they are waited for.
    size_t piece_size = 32;
    std::chrono::microseconds gather_max{2000};
  };
  Committer(Index& index, Volumes& volumes, Garbage& garbage, Options options);
  ~Committer() { stop(); }

  void start();
  void stop();  // completes queued mutations; later submissions fail with closed

  // Returns when the mutation is in the index (and durable, in a sync bucket) or was refused. slow_down when the queue
  // is full. After io_error and insufficient_storage the change is not visible and will not become so, except that a
  // crash before the index has recovered may bring it back, whole.
  Task<Result<void>> submit(Mutation mutation);
  // Likewise, without a coroutine: `done` runs on the executor.
  void submit(Mutation mutation, boost::asio::any_io_executor executor, Committed done);
  // Likewise: `done` runs on a thread of the committer, or within the call when it is refused.
  void submit(Mutation mutation, Committed done) { enqueue({std::move(mutation), std::move(done)}); }
  // Likewise, but what is refused at once is returned, and `done` is not taken then: for callers that hold a lock which
  // `done` needs. `mutation` has no runs.
  Result<void> try_submit(Mutation mutation, Committed& done);

 private:
  struct Pending {
    Mutation mutation;
    Committed done;
    boost::asio::any_io_executor executor{};  // where `done` runs; none: on the queue's thread
    Result<void> outcome{};
    uint64_t queued = ticks();
    bool other_queue = false;  // its bucket has changed its durability meanwhile
  };
  // Mutations that become durable together, and are answered then.
  struct Group {
    explicit Group(Committer& committer);
    std::vector<Pending> members;
    std::vector<size_t> applied;  // indexes of the members in the batches
    IndexTransaction transaction;
    Index::Hidden hidden;  // batches that are written and not durable yet
    Result<void> written;
    SteadyClock::time_point until;  // the deadline for more members
    bool open = true;               // more members may join
  };
  struct CommitQueue {
    bool durable = true;
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<Pending> waiting;
    bool more_follow = false;  // as of the last member
    size_t wanted = 1;         // in `waiting`, before the thread is woken
    bool stopping = false;
    std::thread thread;
  };
  using Members = std::span<Pending>;
  void enqueue(Pending pending);
  Result<void> try_enqueue(Pending& pending);  // a refusal takes nothing
  void loop(CommitQueue& queue);
  std::vector<Pending> process(CommitQueue& queue);
  bool take(CommitQueue& queue, Group& group);
  bool choose(CommitQueue& queue, Group& group);
  bool join(CommitQueue& queue, Group& group, size_t from);
  Members sync_and_join(CommitQueue& queue, Group& group, size_t from);
  static void sync_data(const CommitQueue& queue, Members members);
  void refuse_without_space(Members members);
  void requeue_moved(Group& group);
  void let_go(Mutation& mutation);
  void answer(std::vector<Pending> members);
  void answer_on(const boost::asio::any_io_executor& executor, std::span<Pending* const> members);
  void write_piece(const CommitQueue& queue, Group& group, size_t from);
  void finish(const CommitQueue& queue, Group& group, std::unique_lock<std::mutex>& lock);
  void succeed(const CommitQueue& queue, Group& group);
  void fail_all(Group& group);
  static size_t batch_bytes(Members members);
  void apply(const CommitQueue& queue, Group& group, size_t from);
  Result<void> recover_index();

  Index& index_;
  Volumes& volumes_;
  Garbage& garbage_;
  const Options options_;
  CommitQueue queues_[2];
  LeftTimes left_;
  std::mutex index_mutex_;
  std::vector<Run> limbo_;  // of batches whose outcome is unknown; guarded by index_mutex_
};

}  // namespace verbena::store::local
