// The index: RocksDB behind one wrapper. Handles families and bytes, not their meaning (keys.h and record.h do).
// Thread-safe, except that a Batch (batch.h) and a Cursor belong to one thread.
#pragma once

#include <rocksdb/db.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "store/local/keys.h"
#include "store/local/log_ahead.h"
#include "store/local/log_gate.h"

namespace rocksdb {
class WriteBatchWithIndex;
}

namespace verbena::store::local {

class Batch;

inline rocksdb::Slice slice(std::string_view s) { return {s.data(), s.size()}; }

// The reading of the log at the start. index_check.h decides beforehand which mode a log needs; RocksDB never decides
// by itself.
enum class LogMode : uint8_t {
  whole,          // any damage is an error
  up_to_the_end,  // a torn end, from a power loss, is dropped
  around_damage,  // all readable changes, without the damaged ones
};

struct IndexOptions {
  std::filesystem::path directory;
  rocksdb::Env* env = nullptr;  // null: RocksDB's own access to the machine's file system
  uint64_t cache_bytes = 0;     // blocks that are kept in memory
  size_t open_files_max = 256;  // tables that stay open
  LogMode log = LogMode::whole;
  LogAheadOptions log_ahead{};
  bool create = false;             // if there is none
  bool read_only = false;          // no file changes; writes fail
  std::string* trouble = nullptr;  // receives RocksDB's error message
};

// Whether a read may go to disk. cached never blocks: it fails with would_block instead.
enum class Tier : uint8_t { cached, disk };

// Visibility of changes to a read. `newest`: all that was written. `durable`: nothing of a batch whose log is not yet
// synced, since a power cut could undo it.
enum class Visible : uint8_t { newest, durable };

// Work done by the indexes of this process. Per request it must not grow with the number of objects.
struct IndexWork {
  uint64_t gets = 0;         // look-ups of one key
  uint64_t seeks = 0;        // positionings of cursors
  uint64_t steps = 0;        // of cursors, to the next key
  uint64_t skipped = 0;      // entries that a cursor passed because they were removed or replaced
  uint64_t blocks = 0;       // of about 4 KiB, searched
  uint64_t blocks_read = 0;  // of those, not in the index's own memory
};
IndexWork index_work();

// Walks the keys that start with a prefix, in byte order, and never past them: removed keys there cost nothing.
class Cursor final : public store::Cursor {
 public:
  // The bound of an iterator; RocksDB refers to it for as long as the iterator lives.
  struct End {
    std::string key;
    rocksdb::Slice slice;
  };
  // The bound after the keys with this prefix; null: none.
  static std::unique_ptr<End> end_of(std::string_view prefix);

  // Positioned at the first key from `from` on, or at the first of all. `keeps`: owns what the iterator reads from.
  Cursor(std::unique_ptr<End> end, std::unique_ptr<rocksdb::Iterator> it, std::string prefix, std::string_view from,
         std::shared_ptr<const void> keeps = nullptr);
  bool valid() const override { return valid_; }
  std::string_view key() const override { return key_; }
  std::string_view value() const override {
    const rocksdb::Slice value = it_->value();
    return {value.data(), value.size()};
  }
  void next() override {
    it_->Next();
    look();
  }
  void seek(std::string_view key) override {
    it_->Seek(slice(key));
    look();
  }
  Result<void> status() const override;

 private:
  // Asks the iterator once at each place.
  void look() {
    valid_ = it_->Valid();
    if (!valid_) return;
    const rocksdb::Slice key = it_->key();
    key_ = {key.data(), key.size()};
    valid_ = key_.starts_with(prefix_);
  }

  std::shared_ptr<const void> keeps_;
  std::unique_ptr<End> end_;
  std::unique_ptr<rocksdb::Iterator> it_;
  std::string prefix_;
  std::string_view key_;
  bool valid_ = false;
};

class Index {
 public:
  static Result<std::unique_ptr<Index>> open(const IndexOptions& options);
  // The number of the first log with changes that are in no table. Changes nothing.
  static Result<uint64_t> first_log_needed(const std::filesystem::path& directory, rocksdb::Env* env);
  // Whether a power loss ended the index's creation: families are missing, and there is no row. Changes nothing.
  static bool is_unfinished(const std::filesystem::path& directory, rocksdb::Env* env);
  ~Index();
  Index(const Index&) = delete;

  // not_found; would_block (Tier::cached only); corrupt_object; io_error.
  Result<std::string> get(Family family, std::string_view key, Tier tier = Tier::disk,
                          Visible visible = Visible::newest);
  Cursor cursor(Family family, std::string prefix, std::string_view from = {}, Tier tier = Tier::disk,
                Visible visible = Visible::newest);
  // The current state, kept while a holder lives; must be released before the index.
  using Snapshot = std::shared_ptr<const rocksdb::Snapshot>;
  Snapshot snapshot(Visible visible = Visible::newest);
  Result<std::string> get_of(const Snapshot& snapshot, Family family, std::string_view key, Tier tier = Tier::disk) {
    return get_in(snapshot, family, key, tier);
  }
  Cursor cursor_of(Snapshot snapshot, Family family, std::string prefix, std::string_view from = {},
                   Tier tier = Tier::disk);

  // Atomic, not durable. After an error the outcome is unknown (a crash may bring the batch back) until recover() has
  // succeeded; after it the batch certainly did not happen. Until then all writes fail.
  Result<void> write(Batch& batch);
  // Atomic and durable, in two steps, so that other writes continue while the log is synced: between them
  // Visible::durable does not show the batch. Several may be hidden before one make_durable() of them all; batches of
  // write() must change other keys meanwhile. Errors as those of write().
  using Hidden = std::vector<Batch*>;  // all hidden batches
  Result<void> write_hidden(Batch& batch);
  Result<void> make_durable(const Hidden& batches);
  // Replaces make_durable() after a write of the group failed: the next recover() undoes them.
  void give_up(const Hidden& batches);
  // Writes batches that RocksDB did not read from its log again (index_check.h), in their order; then all is durable.
  Result<void> replay(const std::vector<std::string>& batches);
  // All earlier writes are durable after this.
  Result<void> sync();
  Result<void> recover();
  // Reads all tables and compares their checksums. `trouble` receives the defect and its location, as RocksDB reports
  // it.
  Result<void> check_tables(std::string& trouble);
  LogAhead* log_ahead() { return ahead_.get(); }
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  // The time of all writes so far. It is past when they are durable, and no group that was hidden then can be undone
  // any more, which would also undo what changed its keys before it did.
  struct Moment {
    uint64_t sequence = 0, hidings = 0;
  };
  Moment moment() const;
  bool is_past(const Moment& moment) const;

 private:
  friend class Batch;
  Index() = default;
  void flush_long_log();
  void count_removals(const Batch& batch);
  Result<void> write_locked(Batch& batch);
  Result<void> sync_locked();
  bool hide();  // false: a batch is hidden already
  void show();
  void give_up_locked(const Hidden& batches);
  Snapshot before_hidden();  // null: nothing is hidden
  Result<std::string> get_in(const Snapshot& snapshot, Family family, std::string_view key, Tier tier);
  Cursor cursor_in(Snapshot snapshot, Family family, std::string prefix, std::string_view from, Tier tier);
  // A cursor that sees these changes as if made; null: none.
  Cursor cursor_over(std::shared_ptr<rocksdb::WriteBatchWithIndex> changes, Family family, std::string prefix);
  Result<void> take_back();
  Result<void> flush(const std::vector<rocksdb::ColumnFamilyHandle*>& families);
  rocksdb::ColumnFamilyHandle* handle(Family family) const { return handles_[static_cast<size_t>(family)]; }

  LogGate gate_;
  std::unique_ptr<LogAhead> ahead_;               // null: logs grow record by record
  std::unique_ptr<rocksdb::Env> logs_env_, env_;  // outlive what has them open
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, family_count> handles_{};
  // Serialize log syncs, and writes: once one has failed, RocksDB must not be asked for another before recover() (it
  // asserts that a failed log writer is not used). sync_mutex_ is taken first.
  std::mutex sync_mutex_, write_mutex_;
  std::array<uint64_t, family_count> removals_{};  // since the last flush that they caused; guarded by write_mutex_
  bool read_only_ = false;
  std::atomic<uint64_t> durable_sequence_{0};  // all changes up to this one are durable; written under sync_mutex_
  std::atomic<bool> unsynced_{false}, failed_{false};

  std::atomic<uint64_t> hidings_{0};  // odd while a batch is hidden
  std::mutex before_mutex_;
  Snapshot before_;  // guarded by before_mutex_
  // Family and key of changes whose log could not be synced, for recover(). Guarded by sync_mutex_.
  std::vector<std::pair<uint32_t, std::string>> to_take_back_;
};

}  // namespace verbena::store::local
