// The embedded engine behind store.h: an index in RocksDB, data in append-only volume files, group commit.
//
// DIR/VERSION  format number; a newer one is refused     DIR/LOCK     held while open
// DIR/index/   RocksDB                                   DIR/volumes/ data
//
// One directory has one open store. The store is used from all cores' threads at once; a writer belongs to the core
// that made it, a reader may be shared. Readers and writers should be gone before the store is; those that are not keep
// its files open and answer closed.
#pragma once

#include <filesystem>
#include <memory>

#include "base/blocking.h"
#include "base/clock.h"
#include "store/local/file_system.h"
#include "store/logic/engine_store.h"

namespace verbena::store::local {

struct Engine;

struct Options {
  std::filesystem::path directory;  // made if missing
  memory::Arena* arena = nullptr;   // these outlive the store
  BlockingPool* pool = nullptr;
  FileSystem* fs = nullptr;  // null: the machine's; else RocksDB runs on it too
  const WallClock* clock = &system_clock();
  // Up to here an object's bytes sit in the index. Above it, padding to 4096 (at most 20%) and a second flush cost less
  // than writing the bytes twice, as RocksDB does (log, then table).
  uint64_t inline_max = 16 * KiB;
  uint64_t index_cache = 256 * MiB;  // bytes of the index that are kept in memory
  uint64_t volume_size_max = 1 * GiB;
  uint64_t allocate_step = 16 * MiB;   // volumes grow by this; 0: by what is needed
  uint64_t free_bytes_min = 64 * MiB;  // less free than this: PUTs get insufficient_storage, deletes still work
  // Files that stay open: of volumes besides those that are in use, and of the index.
  size_t open_volumes_max = 256;
  size_t open_index_files_max = 256;
  // What `memory` buckets acknowledge before the index has it: at most so many bytes (and an eighth of the arena; 0:
  // nothing), and for about so long.
  uint64_t write_behind_max = 64 * MiB;
  std::chrono::milliseconds write_behind_after{100};
  uint64_t scrub_rate = 0;                  // bytes per second that are read in search of rot; 0: none
  std::chrono::seconds scrub_rest{86'400};  // from the end of one round to the next
  // Go on where a start would refuse because acknowledged changes are damaged or gone: with what can be read.
  bool accept_data_loss = false;
  uint64_t ids_above = 0;          // ids that are given out are greater: of what was brought from another store
  std::string* trouble = nullptr;  // where open() says, for people, what it refuses to start over
};

struct ScrubReport {
  uint64_t bytes = 0;                   // read and checked
  uint64_t damaged_blocks = 0;          // missing, or not what was written
  uint64_t unreadable_blocks = 0;       // the disk refused to read them: nobody knows
  std::vector<std::string> objects;     // "bucket/key": what is damaged, the first 100
  std::vector<std::string> unreadable;  // likewise, what could not be read
};

class LocalStore final : public EngineStore {
 public:
  // Blocks: for start-up. Recovers what a crash left. What was durable and is damaged is corrupt_object, and nothing
  // has been changed then. service_unavailable: the directory is in use; unsupported: a newer format; corrupt_object,
  // io_error.
  static Result<std::unique_ptr<LocalStore>> open(Options options);
  using EngineStore::open;
  // Ends background work, then closes. Blocks.
  ~LocalStore() override;

  // What the volumes hold.
  struct Usage {
    uint64_t live_bytes = 0;       // named by the index
    uint64_t allocated_bytes = 0;  // blocks the file system holds for it
    uint64_t volumes = 0;
  };
  Result<Usage> usage();  // blocks; walks the space map
  // Blocks; reads everything, as fast as it can. slow_down: out of descriptors or memory, so it says nothing.
  Result<ScrubReport> scrub();
  void drain();  // blocks until the index has all that was acknowledged, and deleted objects' space is back

 private:
  explicit LocalStore(std::shared_ptr<Engine> engine);
  std::shared_ptr<Engine> engine_;
};

}  // namespace verbena::store::local
