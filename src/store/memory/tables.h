// Rows on the heap, and atomic changes of them: one change at a time, and no look sees half of one.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/blobs.h"
#include "store/catalogue.h"
#include "store/logic/left_times.h"

namespace verbena::store::in_memory {

class Tables {
 public:
  using Rows = std::map<std::string, std::string, std::less<>>;

  // Shared for looks, exclusive for changes.
  std::shared_mutex& mutex() const { return mutex_; }
  // The caller holds the mutex, exclusively to change rows.
  Rows& rows(Table table) { return tables_[static_cast<size_t>(table)]; }
  const Rows& rows(Table table) const { return tables_[static_cast<size_t>(table)]; }
  // Null erases the row. Returns the previous value. `row`: the first from `key` on; of the same afterwards.
  std::optional<std::string> set(Table table, std::string_view key, std::optional<std::string> value,
                                 Rows::iterator& row);
  std::optional<std::string> set(Table table, std::string_view key, std::optional<std::string> value) {
    auto row = rows(table).lower_bound(key);
    return set(table, key, std::move(value), row);
  }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

  // The rows changed since a moment began, as they were at its begin; nullopt: absent.
  using Before = std::array<std::map<std::string, std::optional<std::string>, std::less<>>, table_count>;
  // Between these two calls set() saves there the rows that it changes.
  void begin_moment(Before& before) const;
  void end_moment(Before& before) const;

 private:
  mutable std::shared_mutex mutex_;
  std::array<Rows, table_count> tables_;
  // Guards the moments. To change them, hold both mutexes, the tables' one shared; to read them, hold the tables' one
  // exclusively.
  mutable std::mutex moments_mutex_;
  mutable std::set<Before*> moments_;
  std::atomic<uint64_t> bytes_{0}, count_{0};
};

// Holds a copy of its row, so that rows may change under it.
class TableCursor final : public Cursor {
 public:
  // `before`: the moment whose rows it walks; null: the rows of a commit, whose maker holds the mutex.
  TableCursor(const Tables& tables, Table table, std::string prefix, std::string_view from,
              const Tables::Before* before);
  bool valid() const override { return row_.has_value(); }
  std::string_view key() const override { return row_->first; }
  std::string_view value() const override { return row_->second; }
  void next() override;
  void seek(std::string_view key) override;
  Result<void> status() const override { return {}; }

 private:
  void stand(std::string_view from, bool behind);  // to the first row from there on, or after there
  std::shared_lock<std::shared_mutex> lock() const;

  const Tables& tables_;
  const Table table_;
  const std::string prefix_;
  const Tables::Before* const before_;
  std::optional<std::pair<std::string, std::string>> row_;
};

class TablesView final : public View {
 public:
  explicit TablesView(const Tables& tables) : tables_(tables) {}
  Result<std::string> get(Table table, std::string_view key) override;
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override;
  std::unique_ptr<Moment> moment() override;

 private:
  const Tables& tables_;
};

// Rows as they were when it was made: changed rows are copied for it first.
class TablesMoment final : public Moment {
 public:
  explicit TablesMoment(const Tables& tables) : tables_(tables) { tables_.begin_moment(before_); }
  ~TablesMoment() override { tables_.end_moment(before_); }
  TablesMoment(const TablesMoment&) = delete;
  Result<std::string> get(Table table, std::string_view key) override;
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override;

 private:
  const Tables& tables_;
  Tables::Before before_;  // guarded by the tables' mutex
};

// A cursor of a view: as of the moment when it was made, as RocksDB's are. A page of a listing is read by one cursor,
// and a rename moves an object from one row to another: of several moments, the page could show it twice or not at all.
class MomentCursor final : public Cursor {
 public:
  MomentCursor(const Tables& tables, Table table, std::string prefix, std::string_view from);
  bool valid() const override { return cursor_->valid(); }
  std::string_view key() const override { return cursor_->key(); }
  std::string_view value() const override { return cursor_->value(); }
  void next() override { cursor_->next(); }
  void seek(std::string_view key) override { cursor_->seek(key); }
  Result<void> status() const override { return cursor_->status(); }

 private:
  TablesMoment moment_;
  std::unique_ptr<Cursor> cursor_;
};

// Changes the rows in place and can undo everything. For a caller that holds the mutex exclusively.
class TablesTransaction final : public Transaction {
  struct Before {
    Table table;
    std::string key;
    std::optional<std::string> value;
  };

 public:
  // What it notes. Empty between transactions: memory for the next one.
  struct Notes {
    std::vector<Before> before;
    std::vector<uint64_t> dead;
    std::vector<std::function<void()>> effects;
  };
  // `notes`: null: its own.
  TablesTransaction(Tables& tables, LeftTimes& left, uint64_t& last_id, int64_t now_us, Notes* notes = nullptr)
      : tables_(tables), left_(left), last_id_(last_id), now_us_(now_us), notes_(notes == nullptr ? own_ : *notes) {}
  ~TablesTransaction() override;
  TablesTransaction(const TablesTransaction&) = delete;

  Result<std::string> get(Table table, std::string_view key) override;
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override;
  void put(Table table, std::string_view key, std::string_view value) override;
  void erase(Table table, std::string_view key) override;
  void abandon(uint64_t bucket) override { abandoned_.push_back(bucket); }
  Result<uint64_t> next_id() override { return ++last_id_; }
  void take_id(uint64_t id) override { last_id_ = std::max(last_id_, id); }
  void count(const Usage& change) override { counted_ += change; }
  int64_t now_us() const override { return now_us_; }
  Result<int64_t> left_us(uint64_t bucket, std::string_view key) override { return left_.of(bucket, key); }
  void leave_us(uint64_t bucket, std::string_view key, int64_t us) override { left_.leave(bucket, key, us); }
  void on_commit(std::function<void()> effect) override { notes_.effects.push_back(std::move(effect)); }

  void take_back();
  const std::vector<uint64_t>& dead() const { return notes_.dead; }
  const std::vector<uint64_t>& abandoned() const { return abandoned_; }
  const Usage& counted() const { return counted_; }
  void run_effects();

 private:
  void set(Table table, std::string_view key, std::optional<std::string> value);
  Tables::Rows::iterator& place_of(Table table, std::string_view key);
  void kill_named(const BlobRef& blob) override { notes_.dead.push_back(blob.id); }

  Tables& tables_;
  LeftTimes& left_;
  uint64_t& last_id_;
  const int64_t now_us_;
  std::array<std::optional<Tables::Rows::iterator>, table_count> last_places_{};
  Notes own_;
  Notes& notes_;
  Usage counted_;
  std::vector<uint64_t> abandoned_;
};

}  // namespace verbena::store::in_memory
