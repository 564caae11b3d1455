// Frees space, on a thread of its own: holes of dead blobs and of runs that were never named, then volumes without live
// extents. The order is always: the index change is durable, no reader holds the extent, the hole is punched, its
// records are removed. A crash between any two steps is repaired by repeating the step.
//
// The same thread makes `memory` buckets durable, once a second. Removals in them wait for that: a removal must be
// durable before its bytes are freed, and a sync for each removal would be one per client request.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "store/local/index.h"
#include "store/local/pins.h"
#include "store/local/volume.h"
#include "store/logic/bucket_sweep.h"

namespace verbena::store::local {

// Removes the next piece of a removed bucket's rows from the index and returns the blobs that nothing names any more.
// Not synced: a lost piece is removed again. After an error nothing has changed.
Result<std::vector<uint64_t>> sweep_piece(Index& index, BucketSweep& bucket);

class Garbage {
 public:
  // `before_collecting` gets the blobs that come next, so that caches of readers release them. On the garbage thread.
  using BeforeCollecting = std::function<void(const std::vector<uint64_t>& blobs)>;
  Garbage(Index& index, Volumes& volumes, BeforeCollecting before_collecting)
      : index_(index), volumes_(volumes), before_collecting_(std::move(before_collecting)) {}
  ~Garbage() { stop(); }

  void start();
  // Completes what is queued (but leaves removed buckets to the next start), ends the volumes and marks them clean.
  // Nothing is collected afterwards; the next start finds the rest.
  void stop();
  // Waits until everything queued so far is done (blobs that readers hold are not waited for).
  void drain();

  // Queues blobs with a dead record in the index; `durable`: the record would survive a crash.
  void add_dead(const std::vector<uint64_t>& blobs, bool durable);
  // Queues a bucket whose record is gone from the index; its remaining rows are removed in pieces.
  void add_removed_bucket(uint64_t bucket);
  // Frees runs that nothing names, reads or writes.
  void reclaim(std::vector<Run> runs);

  // Checks at the start whether the volume is dead (before start()).
  void reconsider(uint64_t volume) { reconsider_.insert(volume); }

  bool pin(uint64_t blob) { return pins_.pin(blob); }
  void unpin(uint64_t blob);

 private:
  using Clock = std::chrono::steady_clock;
  bool has_work_locked() const { return !dead_.empty() || !runs_.empty() || !removed_.empty(); }
  bool is_awaited_locked() const { return drains_ != 0 && !dying_.empty(); }
  void loop();
  void try_again_locked();
  void write_behind();
  void reclaim_now(std::vector<Run>& runs);
  void sweep(BucketSweep& bucket);
  void collect(std::vector<uint64_t> blobs);
  // Punches the blob's extents and adds the removal of its records to the batch.
  Result<void> collect_one(uint64_t blob, Batch& batch, std::set<uint64_t>& touched);
  Result<void> punch(uint64_t volume, uint64_t offset, uint64_t length);
  Result<void> sync_holes(uint64_t volume);
  void tidy(std::set<uint64_t> touched, bool all);

  Index& index_;
  Volumes& volumes_;
  const BeforeCollecting before_collecting_;
  Pins pins_;
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<uint64_t> dead_;
  std::vector<uint64_t> dying_;  // their dead records are not durable yet
  std::vector<Run> runs_;
  std::deque<BucketSweep> removed_;
  unsigned drains_ = 0;  // callers that wait in drain()
  // Failed steps, tried again at the next tick. Used by the garbage thread alone.
  std::vector<uint64_t> dead_again_, dying_again_;
  std::vector<Run> runs_again_;
  std::vector<BucketSweep> removed_again_;
  std::set<uint64_t> reconsider_;
  bool behind_failed_ = false;
  bool working_ = false, stopping_ = false, stopped_ = false;
  std::thread thread_;
};

}  // namespace verbena::store::local
