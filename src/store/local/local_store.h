// The embedded engine behind store.h: an index in RocksDB, data in volume files, group commit.
//
// DIR/VERSION  format number; a newer one is refused     DIR/LOCK     held while open
// DIR/index/   RocksDB                                   DIR/volumes/ data
//
// One directory has one open store. The store is used from all cores' threads at once; a writer belongs to the core
// that made it, a reader may be shared. Readers and writers should be destroyed before the store; those that are not
// keep its files open and fail with closed.
#pragma once

#include <filesystem>
#include <memory>

#include "base/blocking.h"
#include "base/clock.h"
#include "store/local/file_system.h"
#include "store/local/persistent_memory.h"
#include "store/logic/engine_store.h"

namespace verbena::store::local {

struct Engine;

struct Options {
  std::filesystem::path directory;  // made if missing
  memory::Arena* arena = nullptr;   // these outlive the store
  BlockingPool* pool = nullptr;
  FileSystem* fs = nullptr;  // null: the machine's; else RocksDB runs on it too
  // A block device that has the volumes (device_volumes.h); empty: they are files in the directory.
  std::filesystem::path device;
  // While the device is written to, a new generation begins so often (device_bond.h): for so long a directory that is
  // copied from a running server may be taken for one of the same time as the device, if the server is then killed.
  std::chrono::milliseconds device_generation_after{120'000};
  const WallClock* clock = &system_clock();
  // The largest object stored in the index. Above it, padding to 4096 (at most 20%) and a second flush cost less than
  // writing the bytes twice, as RocksDB does (log, then table).
  uint64_t inline_max = 16 * KiB;
  uint64_t index_cache = 256 * MiB;  // bytes of the index that are kept in memory
  uint64_t volume_size_max = 1 * GiB;
  uint64_t allocate_step = 16 * MiB;   // volumes grow by this; 0: as needed
  uint64_t free_bytes_min = 64 * MiB;  // less free than this: PUTs get insufficient_storage, deletes still work
  // Freed bytes that volumes keep, to be used again in place, at most (also at most what the file system has free). 0,
  // or a file system that does not overwrite in place: freed space goes back to the file system at once.
  uint64_t keep_free = 0;
  // A volume of this size is written ahead of its use when objects have taken so much space in small pieces and little
  // is kept (volume_prepare.h). 0, or none is kept: volumes grow as they are written.
  uint64_t prepare_size = 256 * MiB;
  uint64_t prepare_after = 16 * MiB;
  // Zeros that the index's log has ahead of its records (log_ahead.h), where the file system overwrites in place. 0:
  // none.
  uint64_t log_ahead = 8 * MiB;
  // Limits of open files: of volumes besides those in use, and of the index.
  size_t open_volumes_max = 256;
  size_t open_index_files_max = 256;
  // Limits of what `memory` buckets acknowledge before the index has it: bytes (also at most an eighth of the arena; 0:
  // nothing), and approximate time.
  uint64_t write_behind_max = 64 * MiB;
  std::chrono::milliseconds write_behind_after{100};
  // A folder of persistent memory, or a device-dax node (persistent_memory.h), for the log of small objects of `sync`
  // buckets; empty: none.
  std::filesystem::path pmem;
  uint64_t pmem_log_size = local::pmem_log_size;  // of a folder's
  PersistentMemories* pmem_memories = nullptr;    // null: the machine's
  uint64_t scrub_rate = 0;                        // bytes per second that the scrub reads; 0: no scrub
  std::chrono::seconds scrub_rest{86'400};        // from the end of one round to the next
  // Starts with what can be read where a start would otherwise refuse because acknowledged changes are damaged or
  // missing.
  bool accept_data_loss = false;
  uint64_t ids_above = 0;          // new ids are greater than this: the largest that was brought from another store
  std::string* trouble = nullptr;  // receives open()'s explanation when it refuses to start
};

struct ScrubReport {
  uint64_t bytes = 0;                   // read and checked
  uint64_t damaged_blocks = 0;          // missing, or different from what was written
  uint64_t unreadable_blocks = 0;       // the disk refused to read them: state unknown
  std::vector<std::string> objects;     // "bucket/key" of damaged ones, the first 100
  std::vector<std::string> unreadable;  // likewise, of those that could not be read
  uint64_t unnamed = 0;                 // objects or parts of either kind, beyond those
};

class LocalStore final : public EngineStore {
 public:
  // Blocks: for start-up. Recovers from a crash. Damage to durable data is corrupt_object, and nothing has been changed
  // then. service_unavailable: the directory is in use; unsupported: a newer format; corrupt_object, io_error.
  static Result<std::unique_ptr<LocalStore>> open(Options options);
  using EngineStore::open;
  // Ends background work, then closes. Blocks.
  ~LocalStore() override;

  // The contents of the volumes.
  struct Usage {
    uint64_t live_bytes = 0;       // named by the index
    uint64_t allocated_bytes = 0;  // blocks the file system holds for it
    uint64_t kept_bytes = 0;       // of these, free and kept for reuse
    uint64_t volumes = 0;
  };
  Result<Usage> usage();  // blocks; walks the space map
  // Blocks; reads everything, as fast as it can. slow_down: out of descriptors or memory, so there is no result.
  Result<ScrubReport> scrub();
  void drain();  // blocks until the index has everything acknowledged, and deleted objects' space is freed

 private:
  explicit LocalStore(std::shared_ptr<Engine> engine);
  std::shared_ptr<Engine> engine_;
};

}  // namespace verbena::store::local
