#include "store/local/index.h"

#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <system_error>
#include <thread>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/local/batch.h"
#include "store/local/index_check.h"
#include "store/local/index_checksum.h"

namespace verbena::store::local {
namespace {

constexpr std::array<const char*, family_count> family_names = {"default", "objects",  "uploads", "segments",
                                                                "extents", "in_index", "versions"};

// Descriptors or memory are short, which passes and says nothing about what is stored. RocksDB has no code of its own
// for most of that: the text of its file system, and of seam_env, ends with the C library's words.
bool is_shortage(const rocksdb::Status& status) {
  if (status.IsMemoryLimit()) return true;
  if (!status.IsIOError()) return false;
  const std::string text = status.ToString();
  return std::ranges::any_of(std::array{EMFILE, ENFILE, ENOMEM}, [&](int code) {
    return text.find(std::generic_category().message(code)) != std::string::npos;
  });
}

std::unexpected<Error> to_error(const rocksdb::Status& status, const char* context) {
  if (status.IsNotFound()) return fail(Errc::not_found, context);
  if (status.IsIncomplete()) return fail(Errc::would_block, context);
  log::warn("store: index: {}: {}", context, status.ToString());
  if (status.IsNoSpace()) return fail(Errc::insufficient_storage, context);
  if (status.IsCorruption()) return fail(Errc::corrupt_object, context);
  if (is_shortage(status)) return fail(Errc::slow_down, context);
  return fail(Errc::io_error, context);
}

Result<void> checked(const rocksdb::Status& status, const char* context) {
  if (!status.ok()) return to_error(status, context);
  return {};
}

// Forwards RocksDB's warnings to the log, and drops the rest.
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

// One for all indexes of the process, like metrics.
const std::shared_ptr<rocksdb::Statistics>& statistics() {
  static const auto shared = [] {
    auto made = rocksdb::CreateDBStatistics();
    made->set_stats_level(rocksdb::StatsLevel::kExceptHistogramOrTimers);  // counts alone: no clock is read
    metrics::before_exposition(export_work);
    return made;
  }();
  return shared;
}

// Whether cursors walk over the family for clients. A removal slows every later walk until a compaction has carried it
// to the bottom, so a large number of them triggers one.
bool is_walked(Family family) { return family != Family::in_index; }
bool is_listed(Family family) {
  return family == Family::objects || family == Family::versions || family == Family::uploads;
}
constexpr uint64_t removals_in_memory_max = 64 * 1024;  // of a walked family, before its table is written
constexpr uint64_t skipped_at_hand_max = 256;  // removed entries that a cursor passes without a disk's patience
constexpr std::chrono::seconds flush_patience{30};
constexpr size_t removals_window = 16 * 1024, removals_of_window_max = 8 * 1024;  // more: the table is compacted

// The length of prefix that adjacent inserts often share: for each prefix RocksDB remembers the position of the last
// insert in the table in memory, and starts the next search there. 0: none.
size_t neighbours_prefix(Family family) {
  switch (family) {
    case Family::objects:
    case Family::versions:
      return 8;  // the bucket: keys of a batch tend to be in order
    case Family::in_index:
      return 7;  // of an id: new blobs are at the end, those that they replace elsewhere
    default:
      return 0;
  }
}

rocksdb::ColumnFamilyOptions family_options(Family family, const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_size = 32 * MiB;
  if (const size_t prefix = neighbours_prefix(family); prefix != 0) {
    options.memtable_insert_with_hint_prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(prefix));
  }
  if (family == Family::objects) {
    // A PUT looks up its key first, and most keys are new: the filter answers that without a search in the table in
    // memory.
    options.memtable_prefix_bloom_size_ratio = 0.02;
    options.memtable_whole_key_filtering = true;
  }
  // Small objects' bytes are often compressed already, and their CRC is over what is stored.
  options.compression = family == Family::in_index ? rocksdb::kNoCompression : rocksdb::kLZ4Compression;
  options.force_consistency_checks = true;
  if (is_walked(family)) {
    options.table_properties_collector_factories.push_back(
        rocksdb::NewCompactOnDeletionCollectorFactory(removals_window, removals_of_window_max));
  }
  return options;
}

// Index::recover() does more than RocksDB's own recovery, and the two would conflict.
class NoSelfRecovery final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* automatic) override {
    *automatic = false;
  }
  // A write can meet a log whose sync has just failed before RocksDB has recorded the failure. Its error then,
  // "previous error", would be fatal and outlast recover(), which the sync's own error need not be.
  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) override {
    const char* text = error->getState();
    if (error->IsIOError() && error->severity() >= rocksdb::Status::Severity::kFatalError && text != nullptr &&
        std::string_view(text).find("previous error") != std::string_view::npos) {
      *error = rocksdb::Status(*error, rocksdb::Status::Severity::kHardError);
    }
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
  if (wanted.env != nullptr) {
    options.env = wanted.env;
    options.max_file_opening_threads = 1;  // of a file system in memory: threads cost more than what they read
  }
  options.create_if_missing = wanted.create;
  options.create_missing_column_families = !wanted.read_only;
  options.paranoid_checks = true;
  options.wal_recovery_mode = recovery_mode(wanted.log);
  options.avoid_flush_during_shutdown = true;
  options.max_bgerror_resume_count = 0;
  options.listeners.push_back(std::make_shared<NoSelfRecovery>());
  options.max_background_jobs = 2;
  options.max_open_files = static_cast<int>(std::min<size_t>(wanted.open_files_max, 1 << 20));
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
               std::string_view from, std::shared_ptr<const void> keeps)
    : keeps_(std::move(keeps)), end_(std::move(end)), it_(std::move(it)), prefix_(std::move(prefix)) {
  seek(std::max(from, std::string_view(prefix_)));
}

Result<void> Cursor::status() const { return checked(it_->status(), "iterate"); }

Result<std::unique_ptr<Index>> Index::open(const IndexOptions& options) {
  auto cache = rocksdb::NewLRUCache(options.cache_bytes);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < family_count; ++i) {
    families.emplace_back(family_names[i], family_options(static_cast<Family>(i), cache));
  }
  std::unique_ptr<Index> index(new Index);
  rocksdb::Env* below = options.env;
  if (options.log_ahead.step != 0 && !options.read_only) {
    index->ahead_ = std::make_unique<LogAhead>(options.log_ahead);
    index->logs_env_ = index->ahead_->make_env(below);
    below = index->logs_env_.get();
  }
  index->env_ = make_gated_env(below, index->gate_);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  auto database = database_options(options);
  database.env = index->env_.get();
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
  index->durable_sequence_ = db->GetLatestSequenceNumber();  // the log's contents are in tables by now
  if (!lends_checksum()) log::debug("store: index: RocksDB computes CRC32C by itself");
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

// RocksDB creates the families one by one, and a start with all of them comes before the first change.
bool Index::is_unfinished(const std::filesystem::path& directory, rocksdb::Env* env) {
  const auto database = database_options({.directory = directory, .env = env, .read_only = true});
  std::vector<std::string> there;
  if (!rocksdb::DB::ListColumnFamilies(database, directory.string(), &there).ok()) return false;
  if (there.size() >= family_count) return false;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Options first(database, family_options(Family::meta, rocksdb::NewLRUCache(0)));
  if (!rocksdb::DB::OpenForReadOnly(first, directory.string(), &opened).ok()) return false;
  const std::unique_ptr<rocksdb::DB> db(opened);
  const std::unique_ptr<rocksdb::Iterator> rows(db->NewIterator({}));
  rows->SeekToFirst();
  return !rows->Valid() && rows->status().ok();
}

Result<void> Index::check_tables(std::string& trouble) {
  const auto status = db_->VerifyChecksum();
  if (!status.ok()) trouble = status.ToString();
  return checked(status, "check tables");
}

Index::~Index() {
  if (!db_) return;
  before_.reset();
  if (!read_only_) flush_long_log();
  for (auto* handle : handles_) (void)db_->DestroyColumnFamilyHandle(handle);
  (void)db_->Close();
}

// A start replays the log and then writes its tables in any case: tables written now make the next start shorter. A
// short log is not worth a file.
void Index::flush_long_log() {
  constexpr uint64_t worth_it = 4 * MiB;
  if (failed()) return;
  rocksdb::VectorLogPtr logs;
  if (!db_->GetSortedWalFiles(logs).ok()) return;
  uint64_t bytes = 0;
  for (const auto& log : logs) bytes += log->SizeFileBytes();
  if (bytes < worth_it + (ahead_ ? ahead_->bytes_ahead() : 0)) return;
  std::vector<rocksdb::ColumnFamilyHandle*> all(handles_.begin(), handles_.end());
  (void)db_->Flush({}, all);  // the log has it, whether this succeeds or not
}

Result<std::string> Index::get_in(const Snapshot& snapshot, Family family, std::string_view key, Tier tier) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.get();
  if (tier == Tier::cached) options.read_tier = rocksdb::kBlockCacheTier;
  std::string value;
  VB_TRY(checked(db_->Get(options, handle(family), slice(key), &value), "get"));
  // Where the key may be in a table that is not open, RocksDB answers "found" and leaves the value empty.
  if (tier == Tier::cached && value.empty()) return fail(Errc::would_block, "get");
  return value;
}

Cursor Index::cursor_in(Snapshot snapshot, Family family, std::string prefix, std::string_view from, Tier tier) {
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);  // of this thread: counts of each step, never read
  auto end = Cursor::end_of(prefix);
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.get();
  if (tier == Tier::cached) {
    options.read_tier = rocksdb::kBlockCacheTier;
    options.max_skippable_internal_keys = skipped_at_hand_max;
  }
  if (end) options.iterate_upper_bound = &end->slice;
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, handle(family)));
  return {std::move(end), std::move(it), std::move(prefix), from, std::move(snapshot)};
}

Cursor Index::cursor_over(std::shared_ptr<rocksdb::WriteBatchWithIndex> changes, Family family, std::string prefix) {
  if (!changes) return cursor_in(nullptr, family, std::move(prefix), {}, Tier::disk);
  auto end = Cursor::end_of(prefix);
  rocksdb::ReadOptions options;
  if (end) options.iterate_upper_bound = &end->slice;
  std::unique_ptr<rocksdb::Iterator> base(db_->NewIterator(options, handle(family)));
  std::unique_ptr<rocksdb::Iterator> both(changes->NewIteratorWithBase(handle(family), base.release(), &options));
  return {std::move(end), std::move(both), std::move(prefix), {}, std::move(changes)};
}

// A batch that was hidden after the check of hidings_ may have been seen: read again, with the snapshot.
Result<std::string> Index::get(Family family, std::string_view key, Tier tier, Visible visible) {
  for (;;) {
    const uint64_t hidings = hidings_.load(std::memory_order_acquire);
    const Snapshot before = visible == Visible::durable && hidings % 2 != 0 ? before_hidden() : nullptr;
    auto value = get_in(before, family, key, tier);
    if (visible == Visible::newest || before || hidings_.load(std::memory_order_acquire) == hidings) return value;
  }
}

Cursor Index::cursor(Family family, std::string prefix, std::string_view from, Tier tier, Visible visible) {
  for (;;) {
    const uint64_t hidings = hidings_.load(std::memory_order_acquire);
    const Snapshot before = visible == Visible::durable && hidings % 2 != 0 ? before_hidden() : nullptr;
    Cursor cursor = cursor_in(before, family, prefix, from, tier);
    if (visible == Visible::newest || before || hidings_.load(std::memory_order_acquire) == hidings) return cursor;
  }
}

// As cursor().
Index::Snapshot Index::snapshot(Visible visible) {
  for (;;) {
    const uint64_t hidings = hidings_.load(std::memory_order_acquire);
    if (Snapshot before = visible == Visible::durable && hidings % 2 != 0 ? before_hidden() : nullptr) return before;
    Snapshot now(db_->GetSnapshot(), [this](const rocksdb::Snapshot* snapshot) { db_->ReleaseSnapshot(snapshot); });
    if (visible == Visible::newest || hidings_.load(std::memory_order_acquire) == hidings) return now;
  }
}

Cursor Index::cursor_of(Snapshot snapshot, Family family, std::string prefix, std::string_view from, Tier tier) {
  return cursor_in(std::move(snapshot), family, std::move(prefix), from, tier);
}

bool Index::hide() {
  if (before_hidden()) return false;
  Snapshot before = snapshot();
  const std::lock_guard lock(before_mutex_);
  before_ = std::move(before);
  hidings_.fetch_add(1, std::memory_order_acq_rel);
  return true;
}

void Index::show() {
  Snapshot before;  // released without the lock
  const std::lock_guard lock(before_mutex_);
  if (!before_) return;
  before = std::move(before_);
  hidings_.fetch_add(1, std::memory_order_acq_rel);
}

Index::Snapshot Index::before_hidden() {
  const std::lock_guard lock(before_mutex_);
  return before_;
}

Result<void> Index::write_locked(Batch& batch) {
  // RocksDB may clear an error by itself; a torn record in its log stays until recover().
  if (failed()) return fail(Errc::io_error, "index: an earlier write failed");
  const std::string mark = log_mark(durable_sequence_.load(std::memory_order_acquire));
  (void)batch.batch_.PutLogData(slice(mark));
  auto done = checked(db_->Write({}, &batch.batch_), "write");
  unsynced_.store(true, std::memory_order_release);  // after the write: a concurrent sync need not cover it
  if (!done) failed_.store(true, std::memory_order_release);
  if (done) count_removals(batch);
  return done;
}

Result<void> Index::write(Batch& batch) {
  const std::lock_guard lock(write_mutex_);
  return write_locked(batch);
}

Index::Moment Index::moment() const {
  return {db_->GetLatestSequenceNumber(), hidings_.load(std::memory_order_acquire)};
}

bool Index::is_past(const Moment& moment) const {
  if (failed() || durable_sequence_.load(std::memory_order_acquire) < moment.sequence) return false;
  return moment.hidings % 2 == 0 || hidings_.load(std::memory_order_acquire) != moment.hidings;
}

Result<void> Index::write_hidden(Batch& batch) {
  const std::lock_guard lock(write_mutex_);
  if (failed()) return fail(Errc::io_error, "index: an earlier write failed");
  const bool first = hide();
  auto done = write_locked(batch);
  if (!done && first) show();  // nothing of it was written
  return done;
}

namespace {

// The keys that a batch changes.
struct Changed final : rocksdb::WriteBatch::Handler {
  std::vector<std::pair<uint32_t, std::string>> keys;
  rocksdb::Status PutCF(uint32_t family, const rocksdb::Slice& key, const rocksdb::Slice&) override {
    keys.emplace_back(family, key.ToString());
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteCF(uint32_t family, const rocksdb::Slice& key) override {
    keys.emplace_back(family, key.ToString());
    return rocksdb::Status::OK();
  }
};

}  // namespace

Result<void> Index::make_durable(const Hidden& batches) {
  const std::lock_guard lock(sync_mutex_);
  auto done = failed() ? fail(Errc::io_error, "index: an earlier write failed") : sync_locked();
  if (done) {
    show();
  } else {
    give_up_locked(batches);
  }
  return done;
}

void Index::give_up(const Hidden& batches) {
  const std::lock_guard lock(sync_mutex_);
  give_up_locked(batches);
}

void Index::give_up_locked(const Hidden& batches) {
  failed_.store(true, std::memory_order_release);
  Changed changed;
  for (Batch* batch : batches) (void)batch->batch_.Iterate(&changed);
  to_take_back_ = std::move(changed.keys);
}

Result<void> Index::replay(const std::vector<std::string>& batches) {
  const std::lock_guard no_sync(sync_mutex_);
  const std::lock_guard lock(write_mutex_);
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
    in_background.allow_write_stall = true;  // else it would wait here when writes come too fast
    (void)db_->Flush(in_background, handles_[i]);
  }
}

Result<void> Index::sync() {
  const std::lock_guard lock(sync_mutex_);
  if (failed()) return fail(Errc::io_error, "index: an earlier write failed");
  return sync_locked();
}

// Writes continue meanwhile; the next sync covers them.
Result<void> Index::sync_locked() {
  if (!unsynced_.exchange(false, std::memory_order_acq_rel)) return {};
  const uint64_t upto = db_->GetLatestSequenceNumber();
  auto done = gate_.sync([this] { return checked(db_->SyncWAL(), "sync log"); });
  if (done) {
    durable_sequence_.store(upto, std::memory_order_release);
  } else {
    unsynced_.store(true, std::memory_order_release);
    failed_.store(true, std::memory_order_release);
  }
  return done;
}

// Restores the keys that the hidden batches changed.
Result<void> Index::take_back() {
  if (to_take_back_.empty()) return {};
  const Snapshot before = before_hidden();
  rocksdb::ReadOptions as_before;
  as_before.snapshot = before.get();
  rocksdb::WriteBatch batch;
  for (const auto& [id, key] : to_take_back_) {
    const auto found = std::ranges::find_if(handles_, [&](auto* each) { return each->GetID() == id; });
    if (found == handles_.end()) return fail(Errc::internal, "index: take back");
    std::string value;
    const auto status = db_->Get(as_before, *found, key, &value);
    if (!status.ok() && !status.IsNotFound()) return to_error(status, "take back");
    const auto put = status.ok() ? batch.Put(*found, key, value) : batch.Delete(*found, key);
    VB_TRY(checked(put, "take back"));
  }
  rocksdb::WriteOptions unlogged;
  unlogged.disableWAL = true;
  return checked(db_->Write(unlogged, &batch), "take back");
}

// Returns when all of the families is in tables. After a Resume() RocksDB's own Flush() does not wait.
Result<void> Index::flush(const std::vector<rocksdb::ColumnFamilyHandle*>& families) {
  const auto failures = [this] {
    uint64_t count = 0;
    (void)db_->GetIntProperty(rocksdb::DB::Properties::kBackgroundErrors, &count);
    return count;
  };
  const auto is_flushed = [this](rocksdb::ColumnFamilyHandle* family) {
    uint64_t active = 1, waiting = 1;
    return db_->GetIntProperty(family, rocksdb::DB::Properties::kNumEntriesActiveMemTable, &active) && active == 0 &&
           db_->GetIntProperty(family, rocksdb::DB::Properties::kNumImmutableMemTable, &waiting) && waiting == 0;
  };
  const uint64_t failures_before = failures();
  VB_TRY(checked(db_->Flush({}, families), "flush"));
  const Deadline end = deadline_in(flush_patience);
  while (!std::ranges::all_of(families, is_flushed)) {
    if (failures() != failures_before || SteadyClock::now() >= end) {
      return fail(Errc::io_error, "index: memory is not written");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

Result<void> Index::recover() {
  const std::lock_guard no_sync(sync_mutex_);
  const std::lock_guard lock(write_mutex_);
  if (ahead_) ahead_->forgive_failures();  // nothing is acknowledged before all families have moved past these logs
  VB_TRY(checked(db_->Resume(), "resume"));
  VB_TRY(take_back());
  // A batch whose write failed may be in the current log, whole or torn. One unlogged key in each family and a flush of
  // all move every family past that log, so that no crash can replay it and no write follows the tear.
  rocksdb::WriteOptions unlogged;
  unlogged.disableWAL = true;
  std::vector<rocksdb::ColumnFamilyHandle*> all(handles_.begin(), handles_.end());
  for (auto* family : all) VB_TRY(checked(db_->Put(unlogged, family, "", ""), "recover"));
  VB_TRY(flush(all));
  durable_sequence_.store(db_->GetLatestSequenceNumber(), std::memory_order_release);
  unsynced_.store(false, std::memory_order_release);
  failed_.store(false, std::memory_order_release);
  gate_.reset();
  // A batch that is still hidden and whose sync has not failed stays hidden until its make_durable().
  if (!std::exchange(to_take_back_, {}).empty()) show();
  return {};
}

}  // namespace verbena::store::local
