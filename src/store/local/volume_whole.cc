// Volumes that lie on a device (device_volumes.h): each has its whole size from the start, and every run is taken from
// free space in place, for buckets of either durability. So nothing is appended, written ahead or given back; a volume
// that is empty is unlinked, which frees its extent for another.
#include "store/local/volume.h"

namespace verbena::store::local {

Result<bool> Volumes::whole_has_space() {
  VB_ASSIGN(const uint64_t for_index, options_.index_fs->free_bytes(options_.index_directory));
  if (for_index <= options_.free_bytes_min) return false;
  if (device_failed()) return true;  // for objects in the index; a write to the device is refused by itself
  if (unknown_.load(std::memory_order_relaxed) != 0) return true;  // reserve() finds out
  VB_ASSIGN(const uint64_t extents, options_.fs->free_bytes(options_.directory));
  return extents + kept_bytes() > options_.free_bytes_min;
}

Result<Run> Volumes::reserve_whole(VolumeKind kind, uint64_t bytes, uint64_t least) {
  VB_ASSIGN(const bool space, whole_has_space());
  if (!space) return fail(Errc::insufficient_storage, "volume: too little free space left");
  // Another one that became empty may go before it is used.
  for (int tries = 0; tries < 4; ++tries) {
    VB_TRY(start_whole());
    if (auto run = try_reserve(kind, bytes, least)) return std::move(*run);
  }
  return fail(Errc::slow_down, "volume: free space was taken by others");
}

// One that was made and could not be noted in the index is asked for again: its extent is in use.
Result<void> Volumes::start_whole() {
  if (unstarted_ == 0) unstarted_ = options_.next_id();
  const uint64_t id = unstarted_;
  auto file = options_.fs->open(path(id), {.write = true, .create = true, .direct = true});
  // After a start the volumes' free space is found out bit by bit.
  if (!file && file.error() == Errc::insufficient_storage && unknown_.load(std::memory_order_relaxed) != 0) {
    return fail(Errc::slow_down, "volume: free space is still being looked for");
  }
  if (!file) return std::unexpected(file.error());
  unstarted_ = 0;
  open_.add(id, std::make_shared<Volume>(id, std::move(*file)));
  // Whatever the number of pieces: it is one, and what a device has left.
  const std::lock_guard lock(mutex_);
  free_.add({id, 0, options_.volume_size_max});
  tell_kept_locked();
  return {};
}

}  // namespace verbena::store::local
