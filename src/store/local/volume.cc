#include "store/local/volume.h"

#include "base/log.h"
#include "base/metrics.h"
#include "store/local/disk_times.h"
#include "store/local/volume_name.h"

namespace verbena::store::local {
namespace {

constexpr uint64_t give_back_least = 64 * MiB;  // when the file system is full

metrics::Counter& syncs() {
  static auto& counter = metrics::counter("verbena_store_volume_syncs_total", "fdatasync calls on volumes");
  return counter;
}

}  // namespace

Result<void> Volume::sync() {
  std::lock_guard lock(sync_mutex_);
  if (failed()) return fail(Errc::io_error, "volume: earlier write or sync failed");
  uint64_t upto = written_.load(std::memory_order_acquire);
  if (synced_.load(std::memory_order_acquire) == upto) return {};
  return sync_locked(upto);
}

Result<void> Volume::sync_holes() {
  std::lock_guard lock(sync_mutex_);
  return sync_locked(written_.load(std::memory_order_acquire));
}

Result<void> Volume::sync_locked(uint64_t upto) {
  syncs().add();
  const auto sync = [this] {
    const metrics::Timer timer(DiskTimes::get().sync);
    return file_->datasync();
  };
  if (auto done = sync(); !done) {
    distrust();
    log::error("store: volume {:016x} is sealed: {}", id_, describe(done.error()));
    return done;
  }
  // The kernel tells an error once: after it a sync that succeeds, as of holes, says nothing of the bytes before.
  if (!failed()) synced_.store(upto, std::memory_order_release);
  return {};
}

std::filesystem::path Volumes::path(uint64_t id) const { return options_.directory / volume_file_name(id); }

Result<std::vector<uint64_t>> Volumes::on_disk() {
  VB_ASSIGN(auto names, options_.fs->list(options_.directory));
  std::vector<uint64_t> ids;
  for (const std::string& name : names) {
    if (const auto id = parse_volume_file_name(name)) {
      ids.push_back(*id);
    } else {
      log::warn("store: {} is no volume; left alone", log::printable(name));
    }
  }
  return ids;
}

Result<bool> Volumes::has_space() {
  if (options_.whole) return whole_has_space();
  VB_ASSIGN(uint64_t free, options_.fs->free_bytes(options_.directory));
  if (free > options_.free_bytes_min || kept_bytes() == 0) return free > options_.free_bytes_min;
  give_back(std::max(2 * options_.free_bytes_min, give_back_least));
  VB_ASSIGN(free, options_.fs->free_bytes(options_.directory));
  return free > options_.free_bytes_min;
}

std::optional<Run> Volumes::take(Active& active, uint64_t bytes) {
  if (!active.volume || active.volume->failed() || active.cursor + bytes > active.allocated) return std::nullopt;
  Run run{active.volume, active.cursor, bytes};
  active.cursor += bytes;
  active.volume->unsettled.fetch_add(1, std::memory_order_acq_rel);
  run.synced_behind = &active == &active_[static_cast<size_t>(VolumeKind::written_behind)];
  if (!run.synced_behind) note_taken_locked(run);
  return run;
}

Result<Run> Volumes::reserve(VolumeKind kind, uint64_t bytes, uint64_t least) {
  std::lock_guard growing(grow_mutex_);
  // Another thread's volume may close the one that was opened: not for ever.
  const bool reuses = kind == VolumeKind::durable || options_.whole;
  for (int tries = 0; tries < 4 && reuses && open_for_reuse(bytes, least); ++tries) {
    if (auto run = try_reserve(kind, bytes, least)) return std::move(*run);
  }
  if (options_.whole) return reserve_whole(kind, bytes, least);
  for (;;) {
    if (auto run = append(kind, bytes)) return std::move(*run);
    auto grown = grow(kind, bytes);
    if (!grown && grown.error() == Errc::insufficient_storage) {
      if (kept_bytes() == 0) return std::unexpected(grown.error());
      give_back(std::max(2 * bytes, give_back_least));
      grown = grow(kind, bytes);
    }
    VB_TRY(grown);
  }
}

Result<Run> Volumes::reserve_any(VolumeKind kind, uint64_t bytes, uint64_t least) {
  auto run = reserve(kind, bytes, least);
  if (run || !options_.whole || least <= block_size) return run;
  const bool may_be_shorter = run.error() == Errc::insufficient_storage || run.error() == Errc::slow_down;
  return may_be_shorter ? reserve(kind, bytes, block_size) : std::move(run);
}

std::optional<Run> Volumes::append(VolumeKind kind, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  return take(active_[static_cast<size_t>(kind)], bytes);
}

Result<void> Volumes::grow(VolumeKind kind, uint64_t bytes) {
  VB_ASSIGN(bool space, has_space());
  if (!space) return fail(Errc::insufficient_storage, "volume: too little free space left");
  std::shared_ptr<Volume> volume;
  uint64_t from = 0, to = 0;
  {
    std::lock_guard lock(mutex_);
    Active& active = active_[static_cast<size_t>(kind)];
    if (active.volume && (active.volume->failed() || active.cursor + bytes > options_.volume_size_max)) end(kind);
    volume = active.volume;
    from = active.allocated;
    to = std::min(std::max(active.cursor + bytes, from + options_.allocate_step), options_.volume_size_max);
  }
  if (!volume) return start(kind);
  auto allocated = volume->file().allocate(from, to - from);
  if (!allocated && allocated.error() != Errc::unsupported) return allocated;
  std::lock_guard lock(mutex_);
  active_[static_cast<size_t>(kind)].allocated = to;
  return {};
}

Result<void> Volumes::start(VolumeKind kind) {
  uint64_t id = options_.next_id();
  bool direct = kind == VolumeKind::durable;
  VB_ASSIGN(auto file, options_.fs->open(path(id), {.write = true, .create = true, .direct = direct}));
  auto volume = std::make_shared<Volume>(id, std::move(file));
  // The name must survive a crash before a commit relies on it.
  if (auto synced = options_.fs->sync_directory(options_.directory); !synced) {
    (void)options_.fs->unlink(path(id));
    return synced;
  }
  open_.add(id, volume);
  std::lock_guard lock(mutex_);
  active_[static_cast<size_t>(kind)] = {std::move(volume), 0, 0};
  return {};
}

void Volumes::end(VolumeKind kind) {
  Active& active = active_[static_cast<size_t>(kind)];
  ended_.push_back({std::move(active.volume), active.cursor, kind});
  active = {};
}

std::optional<Run> Volumes::trim(Run& run, uint64_t used) {
  if (used >= run.length) return std::nullopt;
  Run rest{run.volume, run.offset + used, run.length - used, run.reused, run.synced_behind};
  run.length = used;
  std::lock_guard lock(mutex_);
  for (Active& active : active_) {
    if (active.volume == run.volume && active.cursor == rest.offset + rest.length) {
      active.cursor = rest.offset;
      return std::nullopt;
    }
  }
  run.volume->unsettled.fetch_add(1, std::memory_order_acq_rel);
  return rest;
}

std::shared_ptr<Volume> Volumes::cached(uint64_t id) { return open_.find(id); }

Result<std::shared_ptr<Volume>> Volumes::open(uint64_t id) {
  if (auto volume = cached(id)) return volume;
  VB_ASSIGN(auto file, options_.fs->open(path(id), {.write = true, .direct = true}));
  auto volume = open_.add(id, std::make_shared<Volume>(id, std::move(file)));
  // If it was dropped in between, nothing else closes its file, and its extent stays in use.
  if (options_.whole && !options_.fs->stat(path(id))) open_.remove(id);
  return volume;
}

Result<void> Volumes::sync_written_behind() {
  std::vector<std::shared_ptr<Volume>> dirty;
  Result<void> outcome;
  {
    std::lock_guard lock(mutex_);
    if (!undurable_.empty()) outcome = fail(Errc::io_error, "volume: delayed writes could not be synced");
    auto& active = active_[static_cast<size_t>(VolumeKind::written_behind)].volume;
    if (active && active->dirty()) dirty.push_back(active);
    for (const Ended& ended : ended_) {
      if (ended.kind == VolumeKind::written_behind && ended.volume->dirty()) dirty.push_back(ended.volume);
    }
  }
  // A failure must not keep the others from their sync.
  for (auto& volume : dirty) {
    if (auto synced = volume->sync(); !synced) outcome = synced;
  }
  return outcome;
}

// Without these the volume is not clean: the next start examines it again. Synced, because the mark must not outlive a
// crash that holes do not. After a failure another sync would only seem to succeed.
bool Volumes::finish(const Ended& ended) {
  if (ended.volume->failed()) return false;
  const bool cut = ended.volume->file().truncate(ended.size).has_value();
  return ended.volume->sync_holes() && cut;
}

void Volumes::leave(const Ended& ended, bool clean) {
  std::lock_guard lock(mutex_);
  if (!clean) bar_locked(ended.volume->id());
  if (!clean && ended.kind == VolumeKind::written_behind && ended.volume->dirty()) {
    undurable_.insert(ended.volume->id());
    DiskTrouble::get().undurable_volumes.set(static_cast<int64_t>(undurable_.size()));
  }
  std::erase_if(ended_, [&](const Ended& other) { return other.volume == ended.volume; });
}

std::vector<std::shared_ptr<Volume>> Volumes::take_finished(bool all) {
  std::vector<Ended> finished;
  {
    std::lock_guard growing(grow_mutex_);
    std::lock_guard lock(mutex_);
    if (all) {
      for (VolumeKind kind : {VolumeKind::durable, VolumeKind::written_behind}) {
        if (active_[static_cast<size_t>(kind)].volume) end(kind);
      }
    }
    for (const Ended& ended : ended_) {
      if (ended.volume->unsettled.load(std::memory_order_acquire) == 0) finished.push_back(ended);
    }
  }
  std::vector<std::shared_ptr<Volume>> volumes;
  for (const Ended& ended : finished) {
    // It stays in the list until it is synced: sync_written_behind() must find it there.
    const bool clean = finish(ended);
    leave(ended, clean);
    if (clean) volumes.push_back(ended.volume);
  }
  return volumes;
}

bool Volumes::drop(uint64_t id) {
  {
    std::lock_guard lock(mutex_);
    for (const Active& active : active_) {
      if (active.volume && active.volume->id() == id) return false;
    }
    for (const Ended& ended : ended_) {
      if (ended.volume->id() == id) return false;
    }
    if (undurable_.erase(id) != 0) DiskTrouble::get().undurable_volumes.set(static_cast<int64_t>(undurable_.size()));
  }
  open_.remove(id);
  if (auto done = options_.fs->unlink(path(id)); !done && done.error() != Errc::not_found) {
    log::warn("store: volume {:016x}: {}", id, describe(done.error()));
    return false;
  }
  // A thread that wanted its free space may have opened it before it was unlinked.
  open_.remove(id);
  return true;
}

}  // namespace verbena::store::local
