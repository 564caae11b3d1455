// Gives space back, on a thread of its own: holes of dead blobs and of runs that were never named, then volumes in
// which nothing lives. The order is always: the index change is durable, no reader holds the extent, the hole is
// punched, the records that named it go. A crash between any two steps is mended by doing the step again.
//
// The same thread makes what `memory` buckets hold durable, once a second. What died in one of them waits for that: its
// death must be durable before its bytes go, and a sync for each removal would be one for each that a client asks for.
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

// Takes the next piece of what a removed bucket left out of the index and returns the blobs that have lost their names.
// Not synced: what is lost of it is done again. After an error nothing has changed.
Result<std::vector<uint64_t>> sweep_piece(Index& index, BucketSweep& bucket);

class Garbage {
 public:
  // `before_collecting` is told which blobs come next, so that whoever only keeps them lets go. On the garbage thread.
  using BeforeCollecting = std::function<void(const std::vector<uint64_t>& blobs)>;
  Garbage(Index& index, Volumes& volumes, BeforeCollecting before_collecting)
      : index_(index), volumes_(volumes), before_collecting_(std::move(before_collecting)) {}
  ~Garbage() { stop(); }

  void start();
  // Does what is queued (but leaves removed buckets to the next start), ends the volumes and marks them clean.
  // Afterwards nothing is collected any more; what comes later is found by the next start.
  void stop();
  // Waits until everything queued so far is done (blobs that readers hold are not waited for).
  void drain();

  // These blobs have a dead record in the index; `durable`: it would survive a crash.
  void add_dead(const std::vector<uint64_t>& blobs, bool durable);
  // This bucket's record is gone from the index; what it leaves behind goes piece by piece.
  void add_removed_bucket(uint64_t bucket);
  // These runs are named by nothing and nobody reads or writes them.
  void reclaim(std::vector<Run> runs);

  // Nothing may live in this volume any more (before start()).
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
  // Punches what the blob names and adds the removal of its records to the batch.
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
  unsigned drains_ = 0;  // who waits in drain()
  // What went wrong; tried again at the next tick. Of the garbage thread alone.
  std::vector<uint64_t> dead_again_, dying_again_;
  std::vector<Run> runs_again_;
  std::vector<BucketSweep> removed_again_;
  std::set<uint64_t> reconsider_;
  bool behind_failed_ = false;
  bool working_ = false, stopping_ = false, stopped_ = false;
  std::thread thread_;
};

}  // namespace verbena::store::local
