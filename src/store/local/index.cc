#include "store/local/index.h"

#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "base/bytes.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/local/index_check.h"

namespace verbena::store::local {
namespace {

constexpr std::array<const char*, family_count> family_names = {"default", "objects",  "uploads", "segments",
                                                                "extents", "in_index", "versions"};

rocksdb::Slice slice(std::string_view s) { return {s.data(), s.size()}; }

std::unexpected<Error> to_error(const rocksdb::Status& status, const char* context) {
  if (status.IsNotFound()) return fail(Errc::not_found, context);
  if (status.IsIncomplete()) return fail(Errc::would_block, context);
  log::warn("store: index: {}: {}", context, status.ToString());
  if (status.IsNoSpace()) return fail(Errc::insufficient_storage, context);
  if (status.IsCorruption()) return fail(Errc::corrupt_object, context);
  return fail(Errc::io_error, context);
}

Result<void> checked(const rocksdb::Status& status, const char* context) {
  if (!status.ok()) return to_error(status, context);
  return {};
}

// RocksDB's warnings go to the one log; its chatter goes nowhere.
class LogBridge final : public rocksdb::Logger {
 public:
  LogBridge() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list args) override { line(log::Level::debug, format, args); }
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list args) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level == rocksdb::InfoLogLevel::HEADER_LEVEL) return;
    line(level == rocksdb::InfoLogLevel::WARN_LEVEL ? log::Level::warn : log::Level::error, format, args);
  }

 private:
  static void line(log::Level level, const char* format, va_list args) {
    char text[512];
    std::vsnprintf(text, sizeof text, format, args);
    log::at(level, "store: rocksdb: {}", text);
  }
};

void export_work() {
  static auto& gets = metrics::counter("verbena_index_gets_total", "Keys looked up in the index");
  static auto& seeks = metrics::counter("verbena_index_seeks_total", "Cursors put somewhere in the index");
  static auto& steps = metrics::counter("verbena_index_steps_total", "Steps of cursors in the index");
  static auto& skipped =
      metrics::counter("verbena_index_skipped_total", "Removed or replaced entries that cursors passed");
  static auto& blocks = metrics::counter("verbena_index_blocks_total", "Blocks of the index looked into");
  static auto& blocks_read =
      metrics::counter("verbena_index_blocks_read_total", "Of those, not in the index's own memory");
  const IndexWork work = index_work();
  gets.set(work.gets);
  seeks.set(work.seeks);
  steps.set(work.steps);
  skipped.set(work.skipped);
  blocks.set(work.blocks);
  blocks_read.set(work.blocks_read);
}

// One for all indexes of the process, as metrics are.
const std::shared_ptr<rocksdb::Statistics>& statistics() {
  static const auto shared = [] {
    auto made = rocksdb::CreateDBStatistics();
    made->set_stats_level(rocksdb::StatsLevel::kExceptHistogramOrTimers);  // counts alone: no clock is read
    metrics::before_exposition(export_work);
    return made;
  }();
  return shared;
}

// Cursors walk over these on a client's behalf. A removal stays in the way of every later walk until a compaction has
// carried it to the bottom, so many of them must not wait for one by chance.
bool is_walked(Family family) { return family != Family::in_index; }
bool is_listed(Family family) {
  return family == Family::objects || family == Family::versions || family == Family::uploads;
}
constexpr uint64_t removals_in_memory_max = 64 * 1024;  // of a family that is listed, before its table is written
constexpr size_t removals_window = 16 * 1024, removals_of_window_max = 8 * 1024;  // more: the table is compacted

rocksdb::ColumnFamilyOptions family_options(Family family, const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_size = 32 * MiB;
  // Small objects' bytes are often compressed already, and their CRC is over what is stored.
  options.compression = family == Family::in_index ? rocksdb::kNoCompression : rocksdb::kLZ4Compression;
  options.force_consistency_checks = true;
  if (is_walked(family)) {
    options.table_properties_collector_factories.push_back(
        rocksdb::NewCompactOnDeletionCollectorFactory(removals_window, removals_of_window_max));
  }
  return options;
}

// Index::recover() does more than RocksDB's own recovery, and the two get in each other's way.
class NoSelfRecovery final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* automatic) override {
    *automatic = false;
  }
};

rocksdb::WALRecoveryMode recovery_mode(LogMode mode) {
  switch (mode) {
    case LogMode::whole:
      return rocksdb::WALRecoveryMode::kAbsoluteConsistency;
    case LogMode::up_to_the_end:
      return rocksdb::WALRecoveryMode::kPointInTimeRecovery;
    case LogMode::around_damage:
      break;
  }
  return rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
}

rocksdb::DBOptions database_options(const IndexOptions& wanted) {
  rocksdb::DBOptions options;
  if (wanted.env != nullptr) options.env = wanted.env;
  options.create_if_missing = wanted.create;
  options.create_missing_column_families = !wanted.read_only;
  options.paranoid_checks = true;
  options.wal_recovery_mode = recovery_mode(wanted.log);
  options.avoid_flush_during_shutdown = true;
  options.max_bgerror_resume_count = 0;
  options.listeners.push_back(std::make_shared<NoSelfRecovery>());
  options.max_background_jobs = 2;
  options.max_total_wal_size = 128 * MiB;  // what a start after a crash replays, at most
  options.db_write_buffer_size = 128 * MiB;
  options.bytes_per_sync = 1 * MiB;
  options.statistics = statistics();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.info_log = std::make_shared<LogBridge>();
  return options;
}

}  // namespace

IndexWork index_work() {
  rocksdb::Statistics& counts = *statistics();
  const uint64_t hits = counts.getTickerCount(rocksdb::BLOCK_CACHE_DATA_HIT);
  const uint64_t reads = counts.getTickerCount(rocksdb::BLOCK_CACHE_DATA_ADD);
  return {.gets = counts.getTickerCount(rocksdb::NUMBER_KEYS_READ),
          .seeks = counts.getTickerCount(rocksdb::NUMBER_DB_SEEK),
          .steps = counts.getTickerCount(rocksdb::NUMBER_DB_NEXT),
          .skipped = counts.getTickerCount(rocksdb::NUMBER_ITER_SKIP),
          .blocks = hits + reads,
          .blocks_read = reads};
}

std::unique_ptr<Cursor::End> Cursor::end_of(std::string_view prefix) {
  auto key = keys::after_prefix(prefix);
  if (!key) return nullptr;
  auto end = std::make_unique<End>();
  end->key = std::move(*key);
  end->slice = end->key;
  return end;
}

Cursor::Cursor(std::unique_ptr<End> end, std::unique_ptr<rocksdb::Iterator> it, std::string prefix,
               std::string_view from)
    : end_(std::move(end)), it_(std::move(it)), prefix_(std::move(prefix)) {
  seek(std::max(from, std::string_view(prefix_)));
}

bool Cursor::valid() const { return it_->Valid() && it_->key().starts_with(prefix_); }

Result<void> Cursor::status() const { return checked(it_->status(), "iterate"); }

Batch::Batch(Index& index) : index_(index), batch_(rocksdb::BytewiseComparator(), 0, /*overwrite_key=*/true) {}

void Batch::put(Family family, std::string_view key, std::string_view value) {
  (void)batch_.Put(index_.handle(family), slice(key), slice(value));
  ++changes_;
}

void Batch::erase(Family family, std::string_view key) {
  (void)batch_.Delete(index_.handle(family), slice(key));
  ++changes_;
  ++removals_[static_cast<size_t>(family)];
}

void Batch::save() {
  batch_.SetSavePoint();
  saved_changes_ = changes_;
}

void Batch::roll_back() {
  (void)batch_.RollbackToSavePoint();
  changes_ = saved_changes_;
}

Result<std::string> Batch::get(Family family, std::string_view key) {
  std::string value;
  auto status = batch_.GetFromBatchAndDB(index_.db_.get(), {}, index_.handle(family), slice(key), &value);
  VB_TRY(checked(status, "get"));
  return value;
}

Cursor Batch::cursor(Family family, std::string prefix) {
  auto* handle = index_.handle(family);
  auto end = Cursor::end_of(prefix);
  rocksdb::ReadOptions options;
  if (end) options.iterate_upper_bound = &end->slice;
  std::unique_ptr<rocksdb::Iterator> base(index_.db_->NewIterator(options, handle));
  std::unique_ptr<rocksdb::Iterator> both(batch_.NewIteratorWithBase(handle, base.release(), &options));
  return {std::move(end), std::move(both), std::move(prefix), {}};
}

Result<std::unique_ptr<Index>> Index::open(const IndexOptions& options) {
  auto cache = rocksdb::NewLRUCache(options.cache_bytes);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < family_count; ++i) {
    families.emplace_back(family_names[i], family_options(static_cast<Family>(i), cache));
  }
  std::unique_ptr<Index> index(new Index);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const auto database = database_options(options);
  const auto status = options.read_only
                          ? rocksdb::DB::OpenForReadOnly(database, options.directory.string(), families, &handles, &db)
                          : rocksdb::DB::Open(database, options.directory.string(), families, &handles, &db);
  if (!status.ok()) {
    if (options.trouble != nullptr) *options.trouble = status.ToString();
    return to_error(status, "open index");
  }
  index->db_.reset(db);
  for (size_t i = 0; i < family_count; ++i) index->handles_[i] = handles[i];
  index->read_only_ = options.read_only;
  index->durable_sequence_ = db->GetLatestSequenceNumber();  // what the log had is in tables by now
  return index;
}

Result<uint64_t> Index::first_log_needed(const std::filesystem::path& directory, rocksdb::Env* env) {
  VB_ASSIGN(auto index, open({.directory = directory, .env = env, .log = LogMode::around_damage, .read_only = true}));
  uint64_t number = 0;
  if (!index->db_->GetIntProperty(rocksdb::DB::Properties::kMinLogNumberToKeep, &number)) {
    return fail(Errc::unsupported, "index: first log");
  }
  return number;
}

Result<void> Index::check_tables(std::string& trouble) {
  const auto status = db_->VerifyChecksum();
  if (!status.ok()) trouble = status.ToString();
  return checked(status, "check tables");
}

Index::~Index() {
  if (!db_) return;
  if (!read_only_) flush_long_log();
  for (auto* handle : handles_) (void)db_->DestroyColumnFamilyHandle(handle);
  (void)db_->Close();
}

// A start replays the log and then writes its tables all the same: what is written now makes the next start short. A
// short log is not worth a file.
void Index::flush_long_log() {
  constexpr uint64_t worth_it = 4 * MiB;
  if (failed()) return;
  rocksdb::VectorLogPtr logs;
  if (!db_->GetSortedWalFiles(logs).ok()) return;
  uint64_t bytes = 0;
  for (const auto& log : logs) bytes += log->SizeFileBytes();
  if (bytes < worth_it) return;
  std::vector<rocksdb::ColumnFamilyHandle*> all(handles_.begin(), handles_.end());
  (void)db_->Flush({}, all);  // the log has it, whatever comes of this
}

Result<std::string> Index::get(Family family, std::string_view key, Tier tier) {
  rocksdb::ReadOptions options;
  if (tier == Tier::cached) options.read_tier = rocksdb::kBlockCacheTier;
  std::string value;
  VB_TRY(checked(db_->Get(options, handle(family), slice(key), &value), "get"));
  return value;
}

Cursor Index::cursor(Family family, std::string prefix, std::string_view from, Tier tier) {
  auto end = Cursor::end_of(prefix);
  rocksdb::ReadOptions options;
  if (tier == Tier::cached) options.read_tier = rocksdb::kBlockCacheTier;
  if (end) options.iterate_upper_bound = &end->slice;
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, handle(family)));
  return {std::move(end), std::move(it), std::move(prefix), from};
}

Result<void> Index::write(Batch& batch, bool sync) {
  std::lock_guard lock(write_mutex_);
  // RocksDB may clear an error by itself; what lies torn in its log is still there until recover().
  if (failed()) return fail(Errc::io_error, "index: an earlier write failed");
  rocksdb::WriteOptions options;
  options.sync = sync;
  if (!sync) unsynced_.store(true, std::memory_order_release);
  const std::string mark = log_mark(durable_sequence_);
  (void)batch.batch_.PutLogData(slice(mark));
  auto done = checked(db_->Write(options, batch.batch_.GetWriteBatch()), "write");
  if (!done) failed_.store(true, std::memory_order_release);
  if (done && sync) durable_sequence_ = db_->GetLatestSequenceNumber();
  if (done) count_removals(batch);
  return done;
}

Result<void> Index::replay(const std::vector<std::string>& batches) {
  std::lock_guard lock(write_mutex_);
  for (const std::string& bytes : batches) {
    rocksdb::WriteBatch batch(bytes);
    VB_TRY(checked(db_->Write({}, &batch), "replay"));
  }
  return checked(db_->SyncWAL(), "replay");
}

void Index::count_removals(const Batch& batch) {
  for (size_t i = 0; i < family_count; ++i) {
    if (batch.removals_[i] == 0 || !is_listed(static_cast<Family>(i))) continue;
    removals_[i] += batch.removals_[i];
    if (removals_[i] < removals_in_memory_max) continue;
    removals_[i] = 0;
    rocksdb::FlushOptions in_background;
    in_background.wait = false;
    in_background.allow_write_stall = true;  // else it would wait here where writes come too fast
    (void)db_->Flush(in_background, handles_[i]);
  }
}

Result<void> Index::sync() {
  std::lock_guard lock(write_mutex_);
  if (failed()) return fail(Errc::io_error, "index: an earlier write failed");
  if (!unsynced_.exchange(false, std::memory_order_acq_rel)) return {};
  auto done = checked(db_->SyncWAL(), "sync log");
  if (!done) {
    unsynced_.store(true, std::memory_order_release);
    failed_.store(true, std::memory_order_release);
    return done;
  }
  durable_sequence_ = db_->GetLatestSequenceNumber();
  return done;
}

Result<void> Index::recover() {
  std::lock_guard lock(write_mutex_);
  VB_TRY(checked(db_->Resume(), "resume"));
  // A batch whose write failed may lie in the current log, whole or torn. One unlogged key in each family and a flush
  // of all move every family past that log, so that no crash can replay it and nothing is written behind the tear.
  rocksdb::WriteOptions unlogged;
  unlogged.disableWAL = true;
  std::vector<rocksdb::ColumnFamilyHandle*> all(handles_.begin(), handles_.end());
  for (auto* family : all) VB_TRY(checked(db_->Put(unlogged, family, "", ""), "recover"));
  VB_TRY(checked(db_->Flush({}, all), "flush"));
  durable_sequence_ = db_->GetLatestSequenceNumber();
  unsynced_.store(false, std::memory_order_release);
  failed_.store(false, std::memory_order_release);
  return {};
}

}  // namespace verbena::store::local
