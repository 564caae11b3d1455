// State shared by all parts of the engine. Internal to this folder; readers and writers hold it by shared_ptr.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>

#include "store/local/catalogue.h"
#include "store/local/committer.h"
#include "store/local/data_io.h"
#include "store/local/device_bond.h"
#include "store/local/device_volumes.h"
#include "store/local/garbage.h"
#include "store/local/kept_readers.h"
#include "store/local/local_store.h"
#include "store/local/pmem_log.h"
#include "store/logic/context.h"

namespace verbena::store::local {

class VolumeBlobs;
class WriteBehind;
class Scrub;
class Recount;
class VolumePreparer;

struct Engine final : Context, std::enable_shared_from_this<Engine> {
  explicit Engine(Options o);
  ~Engine() override;

  // Directory, lock, format, index, recovery, threads; in this order (recovery.cc).
  Result<void> start();
  // Ends the threads. Idempotent.
  void stop();

  // Ids of buckets, blobs, objects, uploads and volumes: never the same twice, also across crashes. The upper bits
  // count the starts of the store and are durable before the first id is given out.
  uint64_t next_id() { return epoch << 40 | next.fetch_add(1, std::memory_order_relaxed); }

  BlockingPool& pool() const { return *options.pool; }

  // The index has all that was ever in the log on persistent memory, and nothing more can get there: the next start
  // needs no log.
  Result<void> end_pmem_log();

  Options options;
  FileSystem* fs = nullptr;
  FileSystem* volume_fs = nullptr;  // that of the volumes: `fs`, or the device's
  uint64_t epoch = 0;
  std::atomic<uint64_t> next{1};

  // In order of dependence.
  std::unique_ptr<FileLock> lock;
  std::optional<DeviceBond> bond;  // of the store and its device
  std::unique_ptr<DeviceVolumes> device_volumes;
  bool bond_adopted = false;  // VERSION names no device, and the superblock was believed (accept_data_loss)
  // VERSION has this one, whose device is lost, and an empty one takes its place (likewise).
  std::optional<DeviceBond> lost_bond;
  bool had_version = false;  // the directory had a store already, and VERSION is whole
  bool had_index = false;    // likewise
  std::unique_ptr<rocksdb::Env> env;
  std::unique_ptr<Index> index;
  std::unique_ptr<PmemLog> pmem;              // null: there is no persistent memory
  bool uses_pmem = false;                     // the start is over
  uint64_t pmem_id = 0;                       // of the log
  std::vector<PmemLog::Found> found_in_pmem;  // until begin_pmem(); those that are lost, until keep_lost_objects()
  std::unique_ptr<Volumes> volumes;
  KeptReaders kept;
  std::unique_ptr<Garbage> garbage;
  std::unique_ptr<Committer> committer;
  std::unique_ptr<DataIo> io;
  std::unique_ptr<IndexCatalogue> catalogue;
  std::unique_ptr<VolumeBlobs> volume_blobs;
  std::unique_ptr<WriteBehind> behind;
  std::unique_ptr<Scrub> scrub;
  std::unique_ptr<Recount> recount;
  std::unique_ptr<VolumePreparer> preparer;

 private:
  // pmem_start.cc
  Result<void> map_pmem();
  Result<void> open_pmem();
  Result<void> begin_pmem();
  Result<void> keep_lost_objects();
  Result<void> use_pmem(uint64_t id);
  Result<void> replace_older_pmem(std::optional<uint64_t> named);
  std::unexpected<Error> refuse_pmem(std::string sentence) const;
  std::unexpected<Error> refuse_unneeded_pmem(std::string sentence) const;
  std::unexpected<Error> refuse_broken_pmem() const;
  void leave_pmem();

  // device_start.cc
  static constexpr std::string_view lost_with_the_older = "What only the newer of the two has";
  Result<void> open_device();
  Result<void> check_others(File& file) const;
  Result<void> check_no_files() const;
  std::unexpected<Error> refuse_without_superblock(const std::string& sentence) const;
  Result<void> check_bond();
  Result<void> replace_device();
  Result<void> find_new_bond();
  Result<void> check_device_row(const std::vector<uint64_t>& ids, uint64_t starts);
  std::unexpected<Error> refuse_lost_bond(const DeviceBond& its) const;
  Result<void> note_replaced_device();
  Result<void> repair_device();
  std::unexpected<Error> cannot_write(const Error& why) const;
  Result<void> take_device();
  Result<void> begin_generation();
  Result<void> note_generation(uint64_t confirmed, uint64_t changes);
  Result<void> note_change(const DeviceVolumes::Change& change);
  void tend_device(uint64_t bytes);
  void end_device();
  void begin_written_generation();
  Result<void> warn_of_loss(const std::string& sentence, std::string_view lost = lost_with_the_older) const;
  std::unexpected<Error> refuse_device(std::string sentence, Errc code) const;

  // What the index has about the device. Once the store has taken it, changed by one at a time: DeviceVolumes calls.
  DeviceRow device_row;
  bool device_taken = false;
  // Used by the start, then by the garbage thread, then by stop().
  uint64_t writes_of_generation = 0;  // DeviceVolumes::writes() when it began
  SteadyClock::time_point next_generation{};

  Result<void> abandon_lost_buckets();
  Result<void> remove_lost_parts();
  Result<void> leave_named(std::set<uint64_t>& blobs) const;
  Result<void> forget_usages(Batch& batch) const;
  Result<void> load_usage();
  void supply_seams();
  Result<void> open_directory();
  Result<void> open_index();
  Result<LogMode> check_index(std::vector<std::string>& behind_damage);
  Result<void> read_epoch();
  Result<void> check_volumes();
  std::unexpected<Error> refuse(std::string sentence) const;
  Result<void> recover_volumes();
  Result<void> recover_volume(uint64_t id);
  Result<void> open_volume_place();
  Volumes::Options volume_options();
  Result<void> write_version();
  LogAheadOptions log_ahead() const;
  uint64_t space_to_keep() const;
  Result<void> load_kept_space();
  Result<void> resolve_overlaps();
  Result<void> queue_dead_blobs();
  Result<void> queue_removed_buckets();
};

}  // namespace verbena::store::local
