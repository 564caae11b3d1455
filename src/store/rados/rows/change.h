// The Transaction of one run of a judge on a key: its changes, over fetched rows.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "store/blobs.h"
#include "store/rados/rows/batcher.h"
#include "store/rados/rows/rows.h"

namespace verbena::store::rados {

uint64_t random_number();

// Ids that grow with the clock and are unique among all living processes.
class Ids {
 public:
  static constexpr unsigned slot_bits = 10;
  static uint64_t slot_of(uint64_t incarnation) { return incarnation & ((1u << slot_bits) - 1); }
  void set_incarnation(uint64_t incarnation) { slot_ = slot_of(incarnation); }  // call before the first id
  uint64_t next(uint64_t above, int64_t now_us);

 private:
  uint64_t slot_ = 0;
  std::atomic<uint64_t> last_step_{0};
};

class KeyTransaction final : public Transaction {
 public:
  KeyTransaction(Rows& rows, Ids& ids, int64_t now_us) : rows_(rows), ids_(ids), now_us_(now_us) {}

  Result<std::string> get(Table table, std::string_view key) override;
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override;
  void put(Table table, std::string_view key, std::string_view value) override;
  void erase(Table table, std::string_view key) override;
  void abandon(uint64_t bucket) override { abandoned_ = bucket; }
  void count(const Usage& change) override { counted_ += change; }
  Result<uint64_t> next_id() override;
  void take_id(uint64_t id) override { last_id_ = std::max(last_id_, id); }
  int64_t now_us() const override { return now_us_; }
  Result<int64_t> left_us(uint64_t bucket, std::string_view key) override;
  void leave_us(uint64_t, std::string_view, int64_t us) override { left_us_ = us; }
  uint64_t stamp() override { return token_; }
  void on_commit(std::function<void()> effect) override { effects_.push_back(std::move(effect)); }

  using Written = std::map<std::string, std::optional<std::string>>;  // nullopt: erased
  const Written& written(Table table) const { return written_[static_cast<size_t>(table)]; }
  bool empty() const;
  bool changes_objects() const;  // whether it changes rows of keys
  // The id for a new bucket. Without one next_id() fails with would_block, and wants_bucket_id() is true.
  void set_bucket_id(uint64_t id) { bucket_id_ = id; }
  bool wants_bucket_id() const { return wants_bucket_id_; }
  std::optional<uint64_t> abandoned() const { return abandoned_; }
  const std::vector<BlobRef>& dead() const { return dead_; }  // the striped ones
  // Queues in which the change leaves events.
  std::set<std::string> queues() const;
  void run_effects();
  // The change depends on an open upload, which may change although the key has no version token.
  bool needs_version_token() const { return rests_on_upload_ && rows_.version_token()->empty(); }

  // The change of a key in its tablet's form. The version token outlives the key's rows, so that ids and times continue
  // from it and no earlier comparison can become true again, until it is swept (tombstones.h).
  Result<Part> part() const;

 private:
  void kill_named(const BlobRef& blob) override;

  Rows& rows_;
  Ids& ids_;
  const int64_t now_us_;
  const uint64_t token_ = random_number();
  Usage counted_;
  Written written_[table_count];
  bool rests_on_upload_ = false;
  std::vector<BlobRef> dead_, dead_inline_;
  std::vector<std::function<void()>> effects_;
  std::optional<uint64_t> abandoned_;
  uint64_t last_id_ = 0, bucket_id_ = 0;
  int64_t left_us_ = 0;
  bool wants_bucket_id_ = false;
};

}  // namespace verbena::store::rados
