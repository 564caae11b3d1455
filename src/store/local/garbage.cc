#include "store/local/garbage.h"

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "base/metrics.h"
#include "store/local/catalogue.h"

namespace verbena::store::local {
namespace {

constexpr size_t collect_max = 256;  // blobs in one step

metrics::Counter& punched_bytes() {
  static auto& counter = metrics::counter("verbena_store_punched_bytes_total", "Bytes given back to the file system");
  return counter;
}

}  // namespace

Result<std::vector<uint64_t>> sweep_piece(Index& index, BucketSweep& bucket) {
  static const std::function<uint64_t()> no_ids = [] { return 0; };
  IndexTransaction transaction(index, no_ids, 0);
  VB_ASSIGN(BucketSweep next, bucket.step(transaction));
  if (next.done()) transaction.batch().erase(Family::meta, keys::removed_bucket(bucket.bucket()));
  VB_TRY(index.write(transaction.batch()));
  bucket = std::move(next);
  return transaction.dead();
}

void Garbage::start() { thread_ = std::thread(&Garbage::loop, this); }

void Garbage::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Garbage::drain() {
  std::unique_lock lock(mutex_);
  ++drains_;
  wake_.notify_all();
  const auto idle = [&] {
    return !working_ && dying_.empty() && !cooling_.waits() && to_load_.empty() && !has_work_locked();
  };
  idle_.wait(lock, [&] { return stopped_ || !thread_.joinable() || idle(); });
  --drains_;
}

void Garbage::add_dead(const std::vector<uint64_t>& blobs, bool durable) {
  if (blobs.empty()) return;
  std::lock_guard lock(mutex_);
  if (!durable) {
    dying_.insert(dying_.end(), blobs.begin(), blobs.end());
    return;
  }
  dead_.insert(dead_.end(), blobs.begin(), blobs.end());
  if (!rests_ || dead_.size() >= collect_max) wake_.notify_all();
}

void Garbage::add_removed_bucket(uint64_t bucket) {
  std::lock_guard lock(mutex_);
  removed_.emplace_back(bucket);
  wake_.notify_all();
}

void Garbage::reclaim(std::vector<Run> runs) {
  if (runs.empty()) return;
  std::lock_guard lock(mutex_);
  std::move(runs.begin(), runs.end(), std::back_inserter(runs_));
  wake_.notify_all();
}

void Garbage::unpin(uint64_t blob) {
  if (pins_.unpin(blob)) add_dead({blob}, /*durable=*/true);
}

void Garbage::try_again_locked() {
  for (uint64_t blob : std::exchange(dead_again_, {})) dead_.push_back(blob);
  for (uint64_t blob : std::exchange(dying_again_, {})) dying_.push_back(blob);
  for (Run& run : std::exchange(runs_again_, {})) runs_.push_back(std::move(run));
  for (BucketSweep& bucket : std::exchange(removed_again_, {})) removed_.push_back(std::move(bucket));
  cooling_.try_again();
  to_load_.merge(std::exchange(to_load_again_, {}));
}

void Garbage::rest_locked(std::unique_lock<std::mutex>& lock) {
  rests_ = true;
  wake_.wait_for(lock, rest_for, [&] {
    return stopping_ || drains_ != 0 || dead_.size() >= collect_max || !runs_.empty() || !removed_.empty();
  });
  rests_ = false;
}

void Garbage::loop() {
  auto next = Clock::now() + write_behind_every;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait_until(lock, to_load_.empty() ? next : std::min(next, load_at_),
                     [&] { return stopping_ || has_work_locked() || is_awaited_locked(); });
    const bool tick = Clock::now() >= next;
    if (tick && !stopping_) try_again_locked();
    const bool due = tick || stopping_ || is_awaited_locked();
    bool last = stopping_ && dead_.empty() && dying_.empty() && runs_.empty();
    auto runs = std::exchange(runs_, {});
    size_t n = std::min(dead_.size(), collect_max);
    std::vector<uint64_t> blobs(dead_.begin(), dead_.begin() + static_cast<ptrdiff_t>(n));
    dead_.erase(dead_.begin(), dead_.begin() + static_cast<ptrdiff_t>(n));
    std::optional<BucketSweep> bucket;
    if (!stopping_ && !removed_.empty()) {
      bucket = std::move(removed_.front());
      removed_.pop_front();
    }
    working_ = true;
    lock.unlock();

    reclaim_now(runs);
    if (bucket) sweep(*bucket);
    const bool collected = !blobs.empty();
    if (collected) collect(std::move(blobs));
    if (due) {
      write_behind();
      next = Clock::now() + write_behind_every;
    }
    release_cooled(!due);
    if (!last) load_next();
    if (tick && !last) give_back();
    tidy(std::exchange(reconsider_, {}), last);

    lock.lock();
    working_ = false;
    if (last) stopped_ = true;
    idle_.notify_all();
    if (last) return;
    if (collected) rest_locked(lock);
  }
}

void Garbage::write_behind() {
  auto dying = [this] {
    const std::lock_guard lock(mutex_);
    return std::exchange(dying_, {});
  }();
  const auto bytes = volumes_.sync_written_behind();
  if (!bytes && !behind_failed_) log::error("store: write behind: {}", describe(bytes.error()));
  behind_failed_ = !bytes;
  if (index_.sync()) {
    add_dead(dying, /*durable=*/true);
  } else {
    dying_again_.insert(dying_again_.end(), dying.begin(), dying.end());
  }
}

void Garbage::reclaim_now(std::vector<Run>& runs) {
  std::set<uint64_t> touched;
  for (Run& run : runs) {
    if (run.volume->failed()) volumes_.bar(run.volume->id());
    if (run.reused && volumes_.keep({run.volume->id(), run.offset, run.length})) {
      volumes_.settle(run);
      continue;
    }
    // A run that could not be punched stays unsettled: its volume is then not marked clean, and the next start frees
    // it. One that was not written whole has blocks that no later start would find.
    if (!punch(run.volume->id(), run.offset, run.length)) {
      runs_again_.push_back(std::move(run));
      continue;
    }
    volumes_.settle(run);
    touched.insert(run.volume->id());
  }
  runs.clear();
  if (!touched.empty()) tidy(std::move(touched), false);
}

void Garbage::sweep(BucketSweep& bucket) {
  auto dead = sweep_piece(index_, bucket);
  if (!dead) {
    log::warn("store: a removed bucket keeps its space for now: {}", describe(dead.error()));
    removed_again_.push_back(std::move(bucket));
    return;
  }
  std::lock_guard lock(mutex_);
  dying_.insert(dying_.end(), dead->begin(), dead->end());
  if (!bucket.done()) removed_.push_back(std::move(bucket));
}

void Garbage::remember_failed(const std::vector<uint64_t>& collecting) {
  dead_again_.insert(dead_again_.end(), collecting.begin(), collecting.end());
  for (uint64_t blob : collecting) pins_.collected(blob);
}

void Garbage::collect(std::vector<uint64_t> blobs) {
  before_collecting_(blobs);
  Batch batch(index_);
  std::set<uint64_t> touched;
  std::vector<Extent> freed;
  std::vector<uint64_t> collecting;
  // A blob may be queued twice, after a failure: its space is free once.
  std::ranges::sort(blobs);
  blobs.erase(std::ranges::unique(blobs).begin(), blobs.end());
  for (uint64_t blob : blobs) {
    if (!pins_.try_collect(blob)) continue;
    collecting.push_back(blob);
    if (auto done = collect_one(blob, batch, touched, freed); !done) {
      log::warn("store: blob {:x} keeps its space for now: {}", blob, describe(done.error()));
      dead_again_.push_back(blob);
    }
  }
  // The records go only after the holes are durable; otherwise a crash could forget both.
  for (uint64_t id : touched) {
    if (!sync_holes(id)) return remember_failed(collecting);
  }
  // Unsynced: if these removals are lost, the dead records are back too and the space is freed again.
  if (!batch.empty() && !index_.write(batch)) return remember_failed(collecting);
  cool(freed);
  for (uint64_t blob : collecting) pins_.collected(blob);
  tidy(std::move(touched), false);
}

// Damage to the log can bring a removed blob's records back (accept_data_loss): its space may be another blob's since.
Result<bool> Garbage::owns(uint64_t blob, const Extent& extent) {
  auto value = index_.get(Family::extents, keys::extent(extent.volume, extent.offset));
  if (!value && value.error() == Errc::not_found) return false;
  if (!value) return std::unexpected(value.error());
  VB_ASSIGN(const ExtentOwner owner, decode_extent_owner(*value));
  return owner.blob == blob && owner.length == extent.length;
}

Result<void> Garbage::collect_one(uint64_t blob, Batch& batch, std::set<uint64_t>& touched,
                                  std::vector<Extent>& freed) {
  std::vector<std::string> segments;
  std::vector<Extent> extents;
  // Look-ups, not a cursor, which costs several times as much as the one of most blobs.
  for (bool more = true; more;) {
    std::string key = keys::segment(blob, static_cast<uint32_t>(segments.size()));
    const auto value = index_.get(Family::segments, key);
    if (!value && value.error() == Errc::not_found) break;
    if (!value) return std::unexpected(value.error());
    VB_ASSIGN(const Segment segment, decode_segment(*value));
    segments.push_back(std::move(key));
    uint64_t covered = 0;
    for (const Extent& x : segment.extents) {
      covered += x.length;
      VB_ASSIGN(const bool its, owns(blob, x));
      if (its) extents.push_back(x);
    }
    more = covered >= segment_size;  // only the last one is shorter
  }
  // Adjacent extents are merged first, so that a large object costs few calls.
  std::vector<Extent> holes;
  for (const Extent& x : extents) {
    if (!holes.empty() && holes.back().volume == x.volume && holes.back().offset + holes.back().length == x.offset) {
      holes.back().length += x.length;
    } else {
      holes.push_back(x);
    }
  }
  const auto punched = std::ranges::partition(holes, [&](const Extent& hole) { return volumes_.keeps(hole.volume); });
  for (const Extent& hole : punched) {
    VB_TRY(punch(hole.volume, hole.offset, hole.length));
    touched.insert(hole.volume);
  }
  freed.insert(freed.end(), holes.begin(), punched.begin());
  for (const std::string& key : segments) batch.erase(Family::segments, key);
  for (const Extent& x : extents) batch.erase(Family::extents, keys::extent(x.volume, x.offset));
  batch.erase(Family::meta, keys::dead(blob));
  return {};
}

Result<void> Garbage::punch(uint64_t id, uint64_t offset, uint64_t length) {
  auto volume = volumes_.open(id);
  // Already unlinked: this is the repetition after a crash.
  if (!volume && volume.error() == Errc::not_found) return {};
  if (!volume) return std::unexpected(volume.error());
  auto done = (*volume)->file().punch(offset, length);
  // Without holes, space is freed when the whole volume is dead.
  if (!done && done.error() == Errc::unsupported) return {};
  if (done) punched_bytes().add(length);
  return done;
}

// The volume may have been closed since it was punched: any descriptor of the file syncs its holes.
Result<void> Garbage::sync_holes(uint64_t id) {
  if (!volumes_.has_holes()) return {};
  auto volume = volumes_.open(id);
  if (volume) return (*volume)->sync_holes();
  if (volume.error() == Errc::not_found) return {};
  return std::unexpected(volume.error());
}

void Garbage::tidy(std::set<uint64_t> touched, bool all) {
  Batch batch(index_);
  for (auto& volume : volumes_.take_finished(all)) {
    batch.put(Family::meta, keys::volume_clean(volume->id()), "");
    touched.insert(volume->id());
  }
  if (!batch.empty() && !index_.write(batch)) return;
  for (uint64_t id : touched) remove_empty(id);
}

void Garbage::remove_empty(uint64_t id) {
  if (!volumes_.may_go(id) || is_cooling(id)) return;
  if (!index_.get(Family::meta, keys::volume_clean(id))) return;  // still appended to, or not settled
  const auto named = [&] {
    Cursor cursor = index_.cursor(Family::extents, keys::extent_prefix(id));
    return cursor.valid() || !cursor.status();
  };
  if (named()) return;
  auto kept = volumes_.empty_out(id);
  if (!kept) return;
  // Bytes in its free space may have been named since; now nothing more can be. The removal of the last extent must be
  // durable before its file is unlinked.
  if (named() || !index_.sync() || !volumes_.drop(id)) {
    for (const FreeSpace::Piece& piece : *kept) volumes_.keep(piece);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    to_load_.erase(id);
    to_load_again_.erase(id);
    tell_unknown_locked();
  }
  Batch gone(index_);
  gone.erase(Family::meta, keys::volume_clean(id));
  (void)index_.write(gone);
}

}  // namespace verbena::store::local
