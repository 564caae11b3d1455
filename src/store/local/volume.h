// Volumes: files that hold extents. New bytes take free space that volumes keep, in place; else they are appended.
// README.md says when space is free, and why no record can refer to another blob's bytes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "store/local/file_system.h"
#include "store/local/free_space.h"
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
  // Some of what was written is not known to be durable. Once a write or a sync has failed, it stays so.
  bool dirty() const { return written_.load(std::memory_order_acquire) != synced_.load(std::memory_order_acquire); }
  // Makes everything written before the call durable. Once this has failed it fails forever: the kernel may have
  // dropped the pages, so nothing written since the last success can be trusted, and the volume takes no more.
  Result<void> sync();
  // Likewise for holes and cuts, which no write counted; but a later one may succeed, and says nothing of the bytes.
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

// Reserved space. The holder must settle it in the end: the index names it, or it is freed.
struct Run {
  std::shared_ptr<Volume> volume;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool reused = false;         // all of it has been written before
  bool synced_behind = false;  // appended to a `written_behind` volume: sync_written_behind() covers it
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
    uint64_t keep_free = 0;              // freed bytes that volumes keep for reuse, at most; 0: none
    uint64_t prepare_size = 0;           // of a volume that is written ahead of its use; 0: none is
    uint64_t prepare_after = 0;          // bytes that small runs must take before one is made
    std::function<uint64_t()> next_id;
    // Free pieces that are kept, at most: each costs about 150 bytes of memory. What is more goes back to the file
    // system, or is found by the next start.
    size_t pieces_max = 256 * 1024;
    // Volumes lie on a device (volume_whole.cc): each has volume_size_max bytes, all of them written in place.
    bool whole = false;
    std::filesystem::path index_directory = {};  // whose file system needs room, too
    FileSystem* index_fs = nullptr;
    // Whether the device has failed, and takes nothing any more.
    std::function<bool()> failed = {};
    // Called about once a second; may discard so many bytes of extents that became free.
    std::function<void(uint64_t)> tend = {};
  };
  explicit Volumes(Options options);

  // Without blocking; nullopt when a volume must be opened or must grow, or another must be started: then reserve().
  // The run may be shorter than `bytes`, but not than `least`.
  std::optional<Run> try_reserve(VolumeKind kind, uint64_t bytes, uint64_t least);
  // May block. bytes is a multiple of 4096, at most run_max(). insufficient_storage.
  Result<Run> reserve(VolumeKind kind, uint64_t bytes, uint64_t least);
  // Likewise, but on a device it rather takes a shorter piece than `least`, of a block at least, than refuse: one that
  // is nearly full may have no other.
  Result<Run> reserve_any(VolumeKind kind, uint64_t bytes, uint64_t least);
  std::optional<Run> try_reserve(VolumeKind kind, uint64_t bytes) { return try_reserve(kind, bytes, bytes); }
  Result<Run> reserve(VolumeKind kind, uint64_t bytes) { return reserve(kind, bytes, bytes); }
  uint64_t run_max() const { return options_.volume_size_max; }
  bool has_holes() const { return !options_.whole; }  // whether punching does anything
  // Cuts `run` to `used` bytes. The rest returns to the volume if nothing was reserved after it; else it is returned as
  // a run of its own, to be freed.
  std::optional<Run> trim(Run& run, uint64_t used);
  void settle(const Run& run) { run.volume->unsettled.fetch_sub(1, std::memory_order_acq_rel); }

  // The volume with its file open, for as long as the caller holds it. A store has more volumes than a process may have
  // open files, so only a writer holds one for longer than an operation takes.
  std::shared_ptr<Volume> cached(uint64_t id);        // null: its file is not open
  Result<std::shared_ptr<Volume>> open(uint64_t id);  // blocks. not_found; slow_down: too many files are open
  std::filesystem::path path(uint64_t id) const;
  std::string place() const { return options_.directory.string(); }  // the folder, or the device
  Result<std::vector<uint64_t>> on_disk();                           // ids of the existing files
  // More than free_bytes_min is free, if need be after giving kept space back. Blocks.
  Result<bool> has_space();

  // Makes everything in `written_behind` volumes before the call durable. Once that has failed for one of them it fails
  // until the volume is dropped or the store opened again: those bytes may be gone.
  Result<void> sync_written_behind();
  // Takes the volumes that take no more and whose runs are all settled: each is cut to its used length and synced, then
  // the caller may mark it clean. With `all`, active ones are ended first (shutdown). One caller at a time.
  std::vector<std::shared_ptr<Volume>> take_finished(bool all);
  // Drops a volume and unlinks its file. True when that was allowed: not active, nothing unsettled.
  bool drop(uint64_t id);

  // Reuse (volume_reuse.cc). True: free pieces of this volume are kept, so they need not be punched. Those of a volume
  // that does not exist, as of a lost device, are not. May block.
  bool keeps(uint64_t id);
  bool keeps_any() const { return options_.keep_free != 0; }
  // Space for reuse, from now on: nothing names, reads or writes it. False: the volume keeps none.
  bool keep(const FreeSpace::Piece& piece);
  // After a failed write or sync: the volume's space is not used again before the next start.
  void bar(uint64_t id);
  // Takes all free space of a volume that nothing writes to, so that nothing will, if enough is kept without it.
  std::optional<std::vector<FreeSpace::Piece>> empty_out(uint64_t id);
  bool may_go(uint64_t id);  // whether empty_out() would
  uint64_t kept_bytes();
  // How many volumes have free space that is not known yet.
  void set_unknown(size_t volumes) { unknown_.store(volumes, std::memory_order_relaxed); }
  void tend(uint64_t bytes) const {
    if (options_.tend) options_.tend(bytes);
  }
  bool wants_free();  // less is kept than half of the watermark
  // Bytes that are kept beyond the watermark: keep_free, and never more than the file system has free.
  Result<uint64_t> surplus();
  std::optional<FreeSpace::Piece> longest_kept();
  // Punches kept space, the longest pieces first.
  void give_back(uint64_t bytes);

  // Volumes that are written ahead of their use (volume_prepare.cc).
  bool prepares() const { return options_.keep_free != 0 && options_.prepare_size != 0; }
  // Waits until one is wanted. False: end_demand() was called.
  bool await_demand();
  bool rest(std::chrono::milliseconds time);  // false: likewise
  void end_demand();
  Result<uint64_t> prepared_size();  // of the next one; blocks. Less than 1 MiB: there is no room for one
  // Its space is not kept yet. Blocks long; closed after end_demand().
  Result<std::shared_ptr<Volume>> make_prepared(uint64_t size);

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
  std::optional<Run> append(VolumeKind kind, uint64_t bytes);
  static constexpr uint64_t large_run = 1 * MiB;
  void note_taken_locked(const Run& run);
  bool wants_prepared_locked() const;
  Result<void> fill(File& file, uint64_t size);
  std::optional<Run> reuse(uint64_t want, uint64_t least, bool* closed);
  bool open_for_reuse(uint64_t want, uint64_t least);
  bool may_go_locked(uint64_t id) const;
  bool keeps_locked(uint64_t id) const;
  void bar_locked(uint64_t id);
  void tell_kept_locked() const;
  void end(VolumeKind kind);
  static bool finish(const Ended& ended);
  void leave(const Ended& ended, bool clean);
  Result<void> grow(VolumeKind kind, uint64_t bytes);
  Result<void> start(VolumeKind kind);
  bool device_failed() const { return options_.failed && options_.failed(); }
  Result<bool> whole_has_space();
  Result<Run> reserve_whole(VolumeKind kind, uint64_t bytes, uint64_t least);
  Result<void> start_whole();

  const Options options_;
  std::mutex grow_mutex_;  // one grows at a time; taken before mutex_
  // Of the volume on a device whose start failed, perhaps after it was made; 0: none. Guarded by grow_mutex_.
  uint64_t unstarted_ = 0;
  std::mutex mutex_;  // guards what follows; never held over I/O
  Active active_[2];
  std::vector<Ended> ended_;
  std::set<uint64_t> undurable_;  // ended, with bytes written behind that could not be synced
  FreeSpace free_;
  std::set<uint64_t> barred_;
  uint64_t taken_small_ = 0;  // by runs shorter than large_run, since a volume was prepared
  bool demand_ended_ = false;
  std::condition_variable demand_;
  std::atomic<size_t> unknown_ = 0;
  std::atomic<uint64_t> target_;  // the watermark as of the last surplus()
  OpenVolumes open_;
};

}  // namespace verbena::store::local
