// Rows of the index with the heads of acknowledged objects that it does not have yet.
#include <algorithm>
#include <limits>
#include <optional>

#include "store/local/acknowledged_heads.h"
#include "store/local/write_behind.h"
#include "store/logic/keys.h"
#include "store/logic/record.h"

namespace verbena::store::local {
namespace {

using Heads = std::shared_ptr<const AcknowledgedHeads::AsOf>;

// The record as it will be, but for what only the commit decides: its id, above all others, and where its bytes are.
std::string head_of(const Acknowledged& object) {
  ObjectRecord record{.id = std::numeric_limits<uint64_t>::max(), .info = object.info, .blob = {}};
  record.blob.size = object.bytes.bytes.size();
  if (record.blob.size != 0) record.blob.kind = BlobKind::in_index;
  return encode(record);
}

// The rows of the heads, in order. They are fetched some at a time: few after a seek, since a listing may seek again.
class HeadRows {
 public:
  HeadRows(Heads heads, std::string prefix) : heads_(std::move(heads)), prefix_(std::move(prefix)) {}

  bool valid() const { return at_ < some_.size() && row_.starts_with(prefix_); }
  std::string_view key() const { return row_; }
  const Acknowledged& object() const { return *some_[at_]; }
  void next() {
    if (++at_ < some_.size()) return name_row();
    if (some_.size() < fetched_) return;
    std::string behind = some_.back()->key;
    behind.push_back('\0');
    fetch(behind, std::min(2 * fetched_, fetched_max));
  }
  // To the first row not before `row`.
  void seek(std::string_view row) {
    const std::string mine = keys::object_prefix(heads_->bucket());
    row = std::max(row, std::string_view(prefix_));
    if (row.starts_with(mine)) return fetch(row.substr(mine.size()), fetched_min);
    if (row < mine) return fetch({}, fetched_min);
    some_.clear();
  }

 private:
  static constexpr size_t fetched_min = 4, fetched_max = 64;

  void fetch(std::string_view from, size_t most) {
    some_ = heads_->first(from, most);
    fetched_ = most;
    at_ = 0;
    name_row();
  }
  void name_row() {
    if (at_ < some_.size()) row_ = keys::object(heads_->bucket(), some_[at_]->key);
  }

  const Heads heads_;
  const std::string prefix_;
  std::vector<AcknowledgedPtr> some_;
  size_t fetched_ = 0;  // as many were asked for
  size_t at_ = 0;
  std::string row_;
};

// Merges two orders; of equal keys the acknowledged object's.
class AcknowledgedCursor final : public store::Cursor {
 public:
  AcknowledgedCursor(std::unique_ptr<store::Cursor> rows, Heads heads, std::string prefix, std::string_view from)
      : rows_(std::move(rows)), heads_(std::move(heads), std::move(prefix)) {
    heads_.seek(from);
  }
  bool valid() const override { return rows_->valid() || (heads_.valid() && rows_->status()); }
  std::string_view key() const override { return at_head() ? heads_.key() : rows_->key(); }
  std::string_view value() const override {
    if (!at_head()) return rows_->value();
    if (!value_) value_ = head_of(heads_.object());
    return *value_;
  }
  void next() override {
    if (!at_head()) return rows_->next();
    if (rows_->valid() && rows_->key() == heads_.key()) rows_->next();
    heads_.next();
    value_.reset();
  }
  void seek(std::string_view key) override {
    rows_->seek(key);
    heads_.seek(key);
    value_.reset();
  }
  Result<void> status() const override { return rows_->status(); }

 private:
  bool at_head() const { return heads_.valid() && (!rows_->valid() || heads_.key() <= rows_->key()); }

  std::unique_ptr<store::Cursor> rows_;
  HeadRows heads_;
  mutable std::optional<std::string> value_;  // of the head at this position
};

class AcknowledgedMoment final : public Moment {
 public:
  AcknowledgedMoment(std::unique_ptr<Moment> rows, Heads heads) : rows_(std::move(rows)), heads_(std::move(heads)) {}
  Result<std::string> get(Table table, std::string_view key) override {
    if (const auto head = table == Table::objects ? find(key) : nullptr) return head_of(*head);
    return rows_->get(table, key);
  }
  std::unique_ptr<store::Cursor> cursor(Table table, std::string prefix, std::string_view from) override {
    auto cursor = rows_->cursor(table, prefix, from);
    if (table != Table::objects) return cursor;
    return std::make_unique<AcknowledgedCursor>(std::move(cursor), heads_, std::move(prefix), from);
  }
  bool lost() const override { return rows_->lost(); }

 private:
  AcknowledgedPtr find(std::string_view row) const {
    const std::string mine = keys::object_prefix(heads_->bucket());
    return row.starts_with(mine) ? heads_->find(row.substr(mine.size())) : nullptr;
  }

  const std::unique_ptr<Moment> rows_;
  const Heads heads_;
};

}  // namespace

std::unique_ptr<Moment> with_acknowledged(std::unique_ptr<Moment> rows, Heads heads) {
  return std::make_unique<AcknowledgedMoment>(std::move(rows), std::move(heads));
}

}  // namespace verbena::store::local
