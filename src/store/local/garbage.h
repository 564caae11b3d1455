// Frees space, on a thread of its own: that of dead blobs and of runs that were never named, then volumes without live
// extents. Always first: the index change is durable, and no reader holds the extent. Space that goes back to the file
// system is then punched, and its records are removed: a crash between the two is repaired by repeating the step. Space
// that its volume keeps (garbage_reuse.cc) is used again when the removal of its records is durable and cannot be
// undone.
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

#include "base/clock.h"
#include "store/local/cooling.h"
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
  // Volumes that an earlier start may have left with space for reuse: found out bit by bit (before start()).
  // `on_loaded`: when all are, on the garbage thread.
  void load_later(const std::vector<uint64_t>& volumes, std::function<void()> on_loaded) {
    to_load_.insert(volumes.begin(), volumes.end());
    tell_unknown_locked();
    on_loaded_ = std::move(on_loaded);
  }

  bool pin(uint64_t blob) { return pins_.pin(blob); }
  void unpin(uint64_t blob);

 private:
  using Clock = SteadyClock;
  static constexpr auto write_behind_every = std::chrono::seconds(1);
  // After collecting blobs the thread rests so long, unless many wait: blobs that commits replace one group after the
  // other are collected together, with one wake of the thread and one batch for all.
  static constexpr auto rest_for = std::chrono::milliseconds(10);
  bool has_work_locked() const { return !dead_.empty() || !runs_.empty() || !removed_.empty(); }
  bool is_awaited_locked() const { return drains_ != 0 && (!dying_.empty() || cooling_.waits() || !to_load_.empty()); }
  void loop();
  void rest_locked(std::unique_lock<std::mutex>& lock);
  void try_again_locked();
  void write_behind();
  void reclaim_now(std::vector<Run>& runs);
  void sweep(BucketSweep& bucket);
  void collect(std::vector<uint64_t> blobs);
  // Punches the blob's extents, or adds them to `freed` if their volume keeps them, and adds the removal of its records
  // to the batch. `touched`: volumes with a hole.
  Result<void> collect_one(uint64_t blob, Batch& batch, std::set<uint64_t>& touched, std::vector<Extent>& freed);
  Result<bool> owns(uint64_t blob, const Extent& extent);
  void remember_failed(const std::vector<uint64_t>& collecting);
  Result<void> punch(uint64_t volume, uint64_t offset, uint64_t length);
  Result<void> sync_holes(uint64_t volume);
  void tidy(std::set<uint64_t> touched, bool all);
  void remove_empty(uint64_t volume);

  void cool(const std::vector<Extent>& freed);
  void tell_if_loaded();
  // Volumes whose free space is not kept yet.
  void tell_unknown_locked() { volumes_.set_unknown(to_load_.size() + to_load_again_.size() + cooling_.found()); }
  void release_cooled(bool again);
  bool is_cooling(uint64_t volume);
  void load_next();
  // Finds the space of a volume that no record names and that has its blocks.
  Result<std::vector<Extent>> find_free(uint64_t volume);
  void load(uint64_t volume);
  void give_back();

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
  // Guarded by mutex_; changed by the garbage thread alone.
  CoolingSpace cooling_;
  std::set<uint64_t> to_load_, to_load_again_;
  std::function<void()> on_loaded_;
  Clock::time_point load_at_{};
  bool behind_failed_ = false;
  bool working_ = false, stopping_ = false, stopped_ = false;
  bool rests_ = false;  // dead blobs do not wake the thread
  std::thread thread_;
};

}  // namespace verbena::store::local
