// Free space that volumes keep: freed extents of `durable` volumes, taken again in place.
#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"
#include "store/local/volume.h"

namespace verbena::store::local {
namespace {

constexpr uint64_t punch_max = 64 * MiB;  // in one call
constexpr uint64_t keep_volumes = 2;      // on a device, before empty ones are unlinked

metrics::Gauge& kept_gauge() {
  static auto& gauge = metrics::gauge("verbena_store_kept_bytes", "Free bytes that volumes keep for reuse");
  return gauge;
}
metrics::Counter& reused_bytes() {
  static auto& counter =
      metrics::counter("verbena_store_reused_bytes_total", "Bytes of volumes that were taken again in place");
  return counter;
}
metrics::Counter& given_back() {
  static auto& counter = metrics::counter("verbena_store_punched_bytes_total", "Bytes given back to the file system");
  return counter;
}

}  // namespace

Volumes::Volumes(Options options)
    : options_(std::move(options)),
      target_(options_.whole ? keep_volumes * options_.volume_size_max : options_.keep_free),
      open_(options_.open_max) {
  kept_gauge();
  reused_bytes();  // told from the start on
}

std::optional<Run> Volumes::try_reserve(VolumeKind kind, uint64_t bytes, uint64_t least) {
  std::lock_guard lock(mutex_);
  if ((kind == VolumeKind::durable || options_.whole) && options_.keep_free != 0) {
    bool closed = false;
    auto run = reuse(bytes, least, &closed);
    if (run || closed || options_.whole) return run;
  }
  return take(active_[static_cast<size_t>(kind)], bytes);
}

// `closed` is set when there is space, but its volume must be opened first.
std::optional<Run> Volumes::reuse(uint64_t want, uint64_t least, bool* closed) {
  while (const auto id = free_.volume_for(want, least)) {
    auto volume = open_.find(*id);
    if (!volume) {
      *closed = true;
      return std::nullopt;
    }
    if (volume->failed()) {
      bar_locked(*id);
      continue;
    }
    const auto piece = free_.take(*id, want, least, block_size);
    if (!piece) return std::nullopt;
    tell_kept_locked();
    reused_bytes().add(piece->length);
    volume->unsettled.fetch_add(1, std::memory_order_acq_rel);
    Run run{std::move(volume), piece->offset, piece->length, true};
    note_taken_locked(run);
    return run;
  }
  return std::nullopt;
}

// False: there is nothing to open. A volume that does not exist is none of the tries.
bool Volumes::open_for_reuse(uint64_t want, uint64_t least) {
  for (;;) {
    std::optional<uint64_t> id;
    {
      std::lock_guard lock(mutex_);
      if (options_.keep_free != 0) id = free_.volume_for(want, least);
    }
    if (!id) return false;
    const auto opened = open(*id);
    if (opened) return true;
    if (!(opened.error() == Errc::not_found)) return false;
    bar(*id);
  }
}

bool Volumes::keeps_locked(uint64_t id) const {
  if (options_.keep_free == 0 || barred_.contains(id) || free_.pieces() >= options_.pieces_max) return false;
  const auto& behind = active_[static_cast<size_t>(VolumeKind::written_behind)].volume;
  if (behind && behind->id() == id) return false;
  return std::ranges::none_of(
      ended_, [&](const Ended& ended) { return ended.kind == VolumeKind::written_behind && ended.volume->id() == id; });
}

bool Volumes::keeps(uint64_t id) {
  {
    std::lock_guard lock(mutex_);
    if (!keeps_locked(id)) return false;
  }
  if (cached(id)) return true;
  const auto stat = options_.fs->stat(path(id));
  if (stat || !(stat.error() == Errc::not_found)) return true;
  bar(id);
  return false;
}

bool Volumes::keep(const FreeSpace::Piece& piece) {
  std::lock_guard lock(mutex_);
  if (!keeps_locked(piece.volume)) return false;
  if (!free_.add(piece)) {
    // The piece on the list may have an owner as well, and a punch could be wrong: no space of the volume is used
    // again.
    log::error("store: volume {:016x}: {} at {} is free twice; left alone", piece.volume, piece.length, piece.offset);
    bar_locked(piece.volume);
    return true;
  }
  tell_kept_locked();
  return true;
}

void Volumes::bar(uint64_t id) {
  std::lock_guard lock(mutex_);
  bar_locked(id);
}

void Volumes::bar_locked(uint64_t id) {
  free_.remove(id);
  barred_.insert(id);
  tell_kept_locked();
}

void Volumes::tell_kept_locked() const { kept_gauge().set(static_cast<int64_t>(free_.bytes())); }

bool Volumes::may_go_locked(uint64_t id) const {
  if (device_failed()) return false;  // its extent cannot be freed
  const auto is_it = [&](const auto& each) { return each.volume && each.volume->id() == id; };
  if (std::ranges::any_of(active_, is_it) || std::ranges::any_of(ended_, is_it)) return false;
  const uint64_t its = free_.bytes_of(id);
  return its == 0 || free_.bytes() - its >= target_.load(std::memory_order_relaxed);
}

bool Volumes::may_go(uint64_t id) {
  std::lock_guard lock(mutex_);
  return may_go_locked(id);
}

std::optional<std::vector<FreeSpace::Piece>> Volumes::empty_out(uint64_t id) {
  std::lock_guard lock(mutex_);
  if (!may_go_locked(id)) return std::nullopt;
  // Runs pin their volume, so one that is not open has none.
  const auto volume = open_.find(id);
  if (volume && volume->unsettled.load(std::memory_order_acquire) != 0) return std::nullopt;
  auto pieces = free_.remove(id);
  tell_kept_locked();
  return pieces;
}

uint64_t Volumes::kept_bytes() {
  std::lock_guard lock(mutex_);
  return free_.bytes();
}

bool Volumes::wants_free() { return options_.keep_free == 0 || kept_bytes() < target_ / 2; }

Result<uint64_t> Volumes::surplus() {
  if (options_.whole) {
    const uint64_t kept = kept_bytes(), target = target_.load(std::memory_order_relaxed);
    return kept > target ? kept - target : 0;
  }
  VB_ASSIGN(const uint64_t free, options_.fs->free_bytes(options_.directory));
  const uint64_t target = std::min(options_.keep_free, free);
  target_.store(target, std::memory_order_relaxed);
  const uint64_t kept = kept_bytes();
  return kept > target ? kept - target : 0;
}

std::optional<FreeSpace::Piece> Volumes::longest_kept() {
  std::lock_guard lock(mutex_);
  return free_.longest();
}

void Volumes::give_back(uint64_t bytes) {
  if (options_.whole) return;
  while (bytes != 0) {
    std::optional<FreeSpace::Piece> piece;
    {
      std::lock_guard lock(mutex_);
      piece = free_.longest();
      if (!piece) return;
      piece->length = std::min({piece->length, punch_max, align_up(bytes)});
      free_.remove(*piece);
      tell_kept_locked();
    }
    bytes -= std::min(bytes, piece->length);
    // What cannot be punched is found again by a later start.
    const auto volume = open(piece->volume);
    const auto punched =
        volume ? (*volume)->file().punch(piece->offset, piece->length) : std::unexpected(volume.error());
    if (punched) {
      given_back().add(piece->length);
    } else if (!(punched.error() == Errc::unsupported)) {
      log::warn("store: volume {:016x} keeps free space: {}", piece->volume, describe(punched.error()));
    }
  }
}

}  // namespace verbena::store::local
