// The Transaction of one run of a rename's judge, on two keys of a bucket. The object's list of parts and its bytes
// stored with the rows move along.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/blobs.h"
#include "store/rados/rows/batcher.h"
#include "store/rados/rows/change.h"
#include "store/rados/rows/rows.h"

namespace verbena::store::rados {

class PairTransaction final : public Transaction {
 public:
  static constexpr uint64_t moved_bytes_max = 16 * MiB;  // of small blobs in one rename
  static constexpr size_t moved_rows_max = 4'000;

  PairTransaction(Rows& from, Rows& to, Ids& ids, int64_t now_us) : from_(from), to_(to), ids_(ids), now_us_(now_us) {}

  Result<std::string> get(Table table, std::string_view key) override;
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override;
  void put(Table table, std::string_view key, std::string_view value) override;
  void erase(Table table, std::string_view key) override;
  void abandon(uint64_t) override {}
  void count(const Usage& change) override { counted_ += change; }
  Result<uint64_t> next_id() override;
  int64_t now_us() const override { return now_us_; }
  Result<int64_t> left_us(uint64_t bucket, std::string_view key) override;
  void leave_us(uint64_t, std::string_view, int64_t us) override { left_us_ = us; }  // the source's
  void on_commit(std::function<void()> effect) override { effects_.push_back(std::move(effect)); }

  // Call after the judge: fetches the rows that move along. would_block; not_implemented: too much for one call.
  Result<void> follow();
  bool empty() const;
  const std::vector<BlobRef>& dead() const { return dead_; }  // the target's
  void run_effects();

  // The change in the form of the two keys' tablets.
  struct Parts {
    Part source, target;
  };
  Result<Parts> parts() const;
  static Part joined(Parts parts);  // if both keys are in one tablet

 private:
  void kill_named(const BlobRef& blob) override;

  Rows& from_;
  Rows& to_;
  Ids& ids_;
  const int64_t now_us_;
  std::map<std::string, std::optional<std::string>> written_[table_count];
  Part moved_away_, moved_here_;  // rows that move along
  std::vector<BlobRef> dead_, dead_inline_;
  std::vector<std::function<void()>> effects_;
  Usage counted_;
  uint64_t last_id_ = 0;
  int64_t left_us_ = 0;
};

}  // namespace verbena::store::rados
