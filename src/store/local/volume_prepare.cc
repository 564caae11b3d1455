#include "store/local/volume_prepare.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/local/aligned_bytes.h"
#include "store/local/batch.h"

namespace verbena::store::local {
namespace {

using SteadyTime = SteadyClock;

constexpr size_t zeros_size = 1 * MiB;  // written in one call
constexpr uint64_t smallest = 1 * MiB;  // no volume is made for less
constexpr std::chrono::milliseconds rest_least{3}, rest_most{100};
constexpr std::chrono::seconds rest_after_failure{60};

metrics::Counter& prepared_bytes() {
  static auto& counter =
      metrics::counter("verbena_store_prepared_bytes_total", "Bytes of volumes that were written ahead of their use");
  return counter;
}

}  // namespace

// --- What Volumes does for it ---

void Volumes::note_taken_locked(const Run& run) {
  if (options_.prepare_size == 0 || run.length >= large_run) return;
  taken_small_ += run.length;
  if (wants_prepared_locked()) demand_.notify_all();
}

bool Volumes::wants_prepared_locked() const {
  return taken_small_ >= options_.prepare_after && free_.bytes() < options_.prepare_size / 2;
}

bool Volumes::await_demand() {
  std::unique_lock lock(mutex_);
  demand_.wait(lock, [this] { return demand_ended_ || wants_prepared_locked(); });
  taken_small_ = 0;
  return !demand_ended_;
}

bool Volumes::rest(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !demand_.wait_for(lock, time, [this] { return demand_ended_; });
}

void Volumes::end_demand() {
  const std::lock_guard lock(mutex_);
  demand_ended_ = true;
  demand_.notify_all();
}

// Kept space beyond the watermark would go back at once, and the file system must keep room for what cannot wait.
Result<uint64_t> Volumes::prepared_size() {
  VB_ASSIGN(const uint64_t free, options_.fs->free_bytes(options_.directory));
  const uint64_t target = std::min(options_.keep_free, free);
  const uint64_t kept = kept_bytes();
  const uint64_t room = target > kept ? (target - kept) / 2 : 0;
  const uint64_t size = align_down(std::min({options_.prepare_size, options_.volume_size_max, room}), zeros_size);
  if (free < options_.free_bytes_min + 4 * size) return 0;
  return size;
}

Result<std::shared_ptr<Volume>> Volumes::make_prepared(uint64_t size) {
  const uint64_t id = options_.next_id();
  VB_ASSIGN(auto file, options_.fs->open(path(id), {.write = true, .create = true, .direct = true}));
  auto volume = std::make_shared<Volume>(id, std::move(file));
  auto written = options_.fs->sync_directory(options_.directory);
  if (written) written = fill(volume->file(), size);
  if (!written) {
    (void)options_.fs->unlink(path(id));
    return std::unexpected(written.error());
  }
  open_.add(id, volume);
  return volume;
}

Result<void> Volumes::fill(File& file, uint64_t size) {
  if (auto allocated = file.allocate(0, size); !allocated && allocated.error() != Errc::unsupported) return allocated;
  AlignedBytes zeros(zeros_size);
  for (uint64_t at = 0; at < size; at += zeros_size) {
    const auto begun = SteadyTime::now();
    VB_TRY(write_fully(file, zeros.bytes(), at));
    prepared_bytes().add(zeros_size);
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(SteadyTime::now() - begun);
    if (!rest(std::clamp(took, rest_least, rest_most))) return fail(Errc::closed, "volume: the store is closing");
  }
  return file.datasync();
}

// --- The thread ---

void VolumePreparer::start() {
  prepared_bytes();  // told from the start on
  if (volumes_.prepares()) thread_ = std::thread(&VolumePreparer::loop, this);
}

void VolumePreparer::stop() {
  volumes_.end_demand();
  if (thread_.joinable()) thread_.join();
}

void VolumePreparer::loop() {
  while (volumes_.await_demand()) {
    if (auto prepared = prepare(); !prepared && prepared.error() != Errc::closed) {
      log::warn("store: no volume is prepared: {}", describe(prepared.error()));
      if (!volumes_.rest(rest_after_failure)) return;
    }
  }
}

Result<void> VolumePreparer::prepare() {
  VB_ASSIGN(const uint64_t size, volumes_.prepared_size());
  if (size < smallest) return {};
  VB_ASSIGN(const auto volume, volumes_.make_prepared(size));
  // Without the mark the next start would cut the file. It need not be durable before the first commit in the volume,
  // and that makes it so.
  Batch batch(index_);
  batch.put(Family::meta, keys::volume_clean(volume->id()), "");
  auto marked = index_.write(batch);
  if (!marked || !volumes_.keep({volume->id(), 0, size})) (void)volumes_.drop(volume->id());
  return marked;
}

}  // namespace verbena::store::local
