// The index as the logic's catalogue. Looks run at once if RocksDB has the rows in memory, else on the blocking pool;
// changes go through the committer, which judges them one after the other.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "store/catalogue.h"
#include "store/local/batch.h"
#include "store/logic/bucket.h"
#include "store/logic/left_times.h"

namespace verbena::store::local {

class Committer;
struct Engine;

// The index as of a snapshot. Thread-safe.
class IndexMoment final : public Moment {
 public:
  IndexMoment(Index& index, Index::Snapshot snapshot, Tier tier)
      : index_(index), snapshot_(std::move(snapshot)), tier_(tier) {}
  Result<std::string> get(Table table, std::string_view key) override {
    return index_.get_of(snapshot_, family(table), key, tier_);
  }
  std::unique_ptr<store::Cursor> cursor(Table table, std::string prefix, std::string_view from) override {
    return std::make_unique<Cursor>(index_.cursor_of(snapshot_, family(table), std::move(prefix), from, tier_));
  }

 private:
  Index& index_;
  const Index::Snapshot snapshot_;
  const Tier tier_;
};

// Reads the current index. Thread-safe.
class IndexView final : public View {
 public:
  IndexView(Index& index, Tier tier, Visible visible) : index_(index), tier_(tier), visible_(visible) {}
  Tier tier() const { return tier_; }
  Visible visible() const { return visible_; }
  Result<std::string> get(Table table, std::string_view key) override {
    return index_.get(family(table), key, tier_, visible_);
  }
  std::unique_ptr<store::Cursor> cursor(Table table, std::string prefix, std::string_view from) override {
    return std::make_unique<Cursor>(index_.cursor(family(table), std::move(prefix), from, tier_, visible_));
  }
  std::unique_ptr<Moment> moment() override {
    return std::make_unique<IndexMoment>(index_, index_.snapshot(visible_), tier_);
  }

 private:
  Index& index_;
  const Tier tier_;
  const Visible visible_;
};

// Batches as transactions, one change after the other. Used by the committer.
class IndexTransaction final : public Transaction {
 public:
  // Null `left`: the changes remove no key's object.
  IndexTransaction(Index& index, const std::function<uint64_t()>& next_id, int64_t now_us, LeftTimes* left = nullptr)
      : index_(index), left_(left), next_id_(next_id), now_us_(now_us) {
    batches_.emplace_back(index);
  }

  Result<std::string> get(Table table, std::string_view key) override;
  std::unique_ptr<store::Cursor> cursor(Table table, std::string prefix, std::string_view from) override;
  void put(Table table, std::string_view key, std::string_view value) override {
    if (table == Table::meta) forget_bucket_row();
    batch().put(family(table), key, value);
  }
  void erase(Table table, std::string_view key) override {
    if (table == Table::meta) forget_bucket_row();
    batch().erase(family(table), key);
  }
  void abandon(uint64_t bucket) override;
  void count(const Usage& change) override { counted_ += change; }
  void count_from_zero(uint64_t bucket) override;
  // Marks that the change adds everything the bucket held before its changes were counted.
  void complete_count() { completes_ = true; }
  Result<uint64_t> next_id() override { return next_id_(); }
  int64_t now_us() const override { return now_us_; }
  Result<int64_t> left_us(uint64_t bucket, std::string_view key) override {
    return left_ == nullptr ? 0 : left_->of(bucket, key);
  }
  void leave_us(uint64_t bucket, std::string_view key, int64_t us) override {
    if (left_ != nullptr) left_->leave(bucket, key, us);
  }
  void on_commit(std::function<void()> effect) override { effects_.push_back(std::move(effect)); }

  // The changes since the last next_batch().
  Batch& batch() { return batches_.back(); }
  const std::vector<uint64_t>& dead() const { return dead_; }  // blobs that have a dead record now

 private:
  friend class Committer;
  struct Counted {
    std::shared_ptr<const Bucket> bucket;
    Usage change;
    bool completes = false;
  };
  // Adds the count of one judge to the batch's; without this call it is dropped.
  void keep_count(const std::shared_ptr<const Bucket>& bucket);
  void forget_count();
  // Writes the usage rows as of this batch: one per bucket, however many changes there are.
  void put_usage();
  // Starts another batch, after one has been written. Counts stay.
  void next_batch() {
    batches_.emplace_back(index_);
    forget_bucket_row();
  }
  void roll_back();
  void forget_bucket_row() { bucket_row_key_.clear(); }
  void kill_named(const BlobRef& blob) override;

  Index& index_;
  LeftTimes* const left_;
  std::deque<Batch> batches_;
  // The last row of meta that was looked up: changes in a group are mostly of one bucket, whose row each reads.
  std::string bucket_row_key_, bucket_row_;
  const std::function<uint64_t()>& next_id_;
  const int64_t now_us_;
  std::vector<uint64_t> dead_, abandoned_;
  std::vector<std::function<void()>> effects_;
  Usage counted_;
  bool completes_ = false;
  std::vector<Counted> usage_;
};

class IndexCatalogue final : public Catalogue {
 public:
  explicit IndexCatalogue(Engine& engine);

  View& at_hand(const Place& place) override { return at_hand_[shown(place)]; }
  Task<Result<void>> read(const char* reason, Place place, Look look) override;
  Task<Result<void>> commit(Change change) override;
  void commit_then(Change change, boost::asio::any_io_executor executor, Committed then) override;
  bool has_one_place() const override { return true; }
  Task<Result<void>> sync() override;
  Task<Result<void>> sync_rows() override;

 private:
  static size_t shown(const Place& place) { return place.shown == Durability::sync ? 1 : 0; }

  Engine& engine_;
  IndexView at_hand_[2], disk_[2];  // all that was written; all that is durable
};

}  // namespace verbena::store::local
