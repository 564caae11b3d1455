// Objects that the index refuses for a reason of their own: they stay in the table, and in the log if it has them, and
// are tried again.
#include <algorithm>

#include "base/log.h"
#include "store/local/engine.h"
#include "store/local/write_behind.h"

namespace verbena::store::local {

void WriteBehind::stick_locked(const AcknowledgedPtr& object, const Error& why) {
  if (!stuck_.emplace(object->sequence, object).second) return;
  ++stuck_in_[object->bucket->id];
  ++object->bucket->shut;
  if (stuck_.size() == 1) stuck_at_ = Clock::now() + try_again_after;
  stuck_gauge(*object).add(1);
  log::error(
      "store: the index refuses {}/{}, which {}: {}. Until it takes it, small objects of this bucket go to the "
      "disk. {}",
      object->bucket->name, log::printable(object->key),
      object->place ? "the log on persistent memory has" : "was acknowledged from memory", describe(why),
      object->place ? "Stop the server: `verbena fsck` names damaged rows"
                    : "It is tried again each second, and lost if the server stops before");
}

void WriteBehind::free_locked(const Acknowledged& object) {
  if (stuck_.erase(object.sequence) == 0) return;
  const auto in = stuck_in_.find(object.bucket->id);
  if (--in->second == 0) stuck_in_.erase(in);
  --object.bucket->shut;
  stuck_gauge(object).add(-1);
}

// They take turns if they are many. At a stop all have theirs.
WriteBehind::Batch WriteBehind::take_stuck_locked() {
  Batch batch;
  const size_t size = stopping_ ? stuck_.size() : std::min(batch_max, stuck_.size());
  stuck_tried_last_ = stopping_;
  for (auto next = stuck_.upper_bound(stuck_tried_); batch.size() < size; ++next) {
    if (next == stuck_.end()) next = stuck_.begin();
    batch.push_back(next->second);
  }
  stuck_tried_ = batch.back()->sequence;
  return batch;
}

// A key's new object may have been on its way into the log when the index refused the one before. That one must not
// come into the index after the new one. Returns them, to be destroyed when no lock is held.
WriteBehind::Batch WriteBehind::drop_overwritten_locked() {
  Batch gone;
  for (const auto& [sequence, object] : stuck_) {
    if (!is_newest_locked(*object)) gone.push_back(object);
  }
  for (const AcknowledgedPtr& object : gone) {
    forget_locked(*object);
    tell_log(*object, &PmemLog::replaced);
  }
  return gone;
}

// Whatever comes of it, those that wait for the first time are next: a stuck object does not hold them up, and says
// nothing about the disk.
void WriteBehind::try_stuck(std::unique_lock<std::mutex>& lock) {
  Batch gone = drop_overwritten_locked();
  Batch batch = stuck_.empty() ? Batch() : take_stuck_locked();
  lock.unlock();
  gone.clear();
  move_all_in_log();
  std::erase_if(batch, [this](const AcknowledgedPtr& object) { return is_still_refused(*object); });
  write(std::move(batch));
  lock.lock();
  stuck_at_ = Clock::now() + try_again_after;
}

// Asks before the object's bytes are written to the disk. What changes until the commit is asked for again there.
bool WriteBehind::is_still_refused(const Acknowledged& object) const {
  const std::function<uint64_t()> ids = [this] { return engine_.next_id(); };
  IndexTransaction attempt(*engine_.index, ids, engine_.options.clock->now_us());
  const auto put = put_acknowledged(attempt, object, blob_without_bytes(object));
  return !put && is_kept(object, put.error());
}

// The oldest record first: each that moves makes room in the log for the next one.
void WriteBehind::move_all_in_log() {
  Batch all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [sequence, object] : stuck_) {
      if (object->place) all.push_back(object);
    }
  }
  std::ranges::sort(all, {}, [](const AcknowledgedPtr& object) { return *object->place; });
  for (const AcknowledgedPtr& object : all) move_in_log(object);
}

// The log's space is used again from its oldest record on: one that stays would fill the log.
void WriteBehind::move_in_log(const AcknowledgedPtr& object) {
  const std::lock_guard none_is_appended(append_mutex_);
  if (!engine_.pmem->is_old(*object->place)) return;
  {
    const std::lock_guard lock(mutex_);
    if (!is_newest_locked(*object)) return;  // the last record of the key must stay the last
  }
  const auto place = append_to_log(*object, object->bytes.bytes, /*moves=*/true);
  if (!place) return;
  engine_.pmem->replaced(*std::exchange(object->place, place));
  log_gauge_.set(static_cast<int64_t>(engine_.pmem->used_bytes()));
}

}  // namespace verbena::store::local
