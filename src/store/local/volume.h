// Volumes: append-only files that hold extents. Space in a volume is allocated once and never again, so a hole may be
// punched twice and a lost index record can never refer to another blob's bytes.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "store/local/file_system.h"
#include "store/local/open_volumes.h"
#include "store/local/record.h"

namespace verbena::store::local {

// The commits that a volume serves. `written_behind` volumes (buckets with Durability::memory) go through the page
// cache.
enum class VolumeKind : uint8_t { durable = 0, written_behind = 1 };

class Volume {
 public:
  Volume(uint64_t id, std::unique_ptr<File> file) : id_(id), file_(std::move(file)) {}

  uint64_t id() const { return id_; }
  File& file() { return *file_; }

  // A write into the volume has completed; sync() must cover it.
  void note_written() { written_.fetch_add(1, std::memory_order_acq_rel); }
  bool dirty() const { return written_.load(std::memory_order_acquire) != synced_.load(std::memory_order_acquire); }
  // Makes everything written before the call durable. Once this has failed it fails forever: the kernel may have
  // dropped the pages, so nothing written since the last success can be trusted, and the volume takes no more.
  Result<void> sync();
  // Likewise for holes and cuts, which no write counted.
  Result<void> sync_holes();
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Marks the volume after a failed write: it takes no more.
  void distrust() { failed_.store(true, std::memory_order_release); }

  // Runs that no index record names yet and that were not freed either.
  std::atomic<int> unsettled{0};

 private:
  const uint64_t id_;
  const std::unique_ptr<File> file_;
  std::atomic<uint64_t> written_{0}, synced_{0};
  std::atomic<bool> failed_{false};
  Result<void> sync_locked(uint64_t upto);
  std::mutex sync_mutex_;
};

// Reserved space. The holder must settle it in the end: the index names it, or it is punched.
struct Run {
  std::shared_ptr<Volume> volume;
  uint64_t offset = 0;
  uint64_t length = 0;
};

class Volumes {
 public:
  struct Options {
    std::filesystem::path directory;
    FileSystem* fs = nullptr;
    uint64_t volume_size_max = 1 * GiB;
    uint64_t allocate_step = 16 * MiB;   // blocks are reserved from the file system in steps; 0: as needed
    uint64_t free_bytes_min = 64 * MiB;  // new data is refused below this, so that deletes still work
    size_t open_max = 256;               // files that stay open besides those in use
    std::function<uint64_t()> next_id;
  };
  explicit Volumes(Options options) : options_(std::move(options)), open_(options_.open_max) {}

  // Without blocking; nullopt when the volume must grow or another must be started: then reserve().
  std::optional<Run> try_reserve(VolumeKind kind, uint64_t bytes);
  // May block. bytes is a multiple of 4096, at most run_max(). insufficient_storage.
  Result<Run> reserve(VolumeKind kind, uint64_t bytes);
  uint64_t run_max() const { return options_.volume_size_max; }
  // Cuts `run` to `used` bytes. The rest returns to the volume if nothing was reserved after it; else it is returned as
  // a run of its own, to be punched.
  std::optional<Run> trim(Run& run, uint64_t used);
  void settle(const Run& run) { run.volume->unsettled.fetch_sub(1, std::memory_order_acq_rel); }

  // The volume with its file open, for as long as the caller holds it. A store has more volumes than a process may have
  // open files, so only a writer holds one for longer than an operation takes.
  std::shared_ptr<Volume> cached(uint64_t id);        // null: its file is not open
  Result<std::shared_ptr<Volume>> open(uint64_t id);  // blocks. not_found; slow_down: too many files are open
  std::filesystem::path path(uint64_t id) const;
  Result<std::vector<uint64_t>> on_disk();  // ids of the existing files
  Result<bool> has_space();                 // more than free_bytes_min is free

  // Makes everything in `written_behind` volumes before the call durable. Once that has failed for one of them it fails
  // until the volume is dropped or the store opened again: those bytes may be gone.
  Result<void> sync_written_behind();
  // Takes the volumes that take no more and whose runs are all settled: each is cut to its used length and synced, then
  // the caller may mark it clean. With `all`, active ones are ended first (shutdown). One caller at a time.
  std::vector<std::shared_ptr<Volume>> take_finished(bool all);
  // Drops a volume and unlinks its file. True when that was allowed: not active, nothing unsettled.
  bool drop(uint64_t id);

 private:
  struct Active {
    std::shared_ptr<Volume> volume;
    uint64_t cursor = 0;     // next free byte
    uint64_t allocated = 0;  // the file system has reserved blocks up to here
  };
  struct Ended {
    std::shared_ptr<Volume> volume;
    uint64_t size = 0;
    VolumeKind kind = VolumeKind::durable;
  };
  std::optional<Run> take(Active& active, uint64_t bytes);
  void end(VolumeKind kind);
  static bool finish(const Ended& ended);
  void leave(const Ended& ended, bool clean);
  Result<void> grow(VolumeKind kind, uint64_t bytes);
  Result<void> start(VolumeKind kind);

  const Options options_;
  std::mutex grow_mutex_;  // one grows at a time; taken before mutex_
  std::mutex mutex_;       // guards what follows; never held over I/O
  Active active_[2];
  std::vector<Ended> ended_;
  std::set<uint64_t> undurable_;  // ended, with bytes written behind that could not be synced
  OpenVolumes open_;
};

}  // namespace verbena::store::local
