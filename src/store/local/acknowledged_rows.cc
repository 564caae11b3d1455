// Rows of the index with the heads of acknowledged objects that it does not have yet.
#include <limits>

#include "store/local/write_behind.h"
#include "store/logic/keys.h"
#include "store/logic/record.h"

namespace verbena::store::local {
namespace {

using Heads = std::map<std::string, AcknowledgedPtr, std::less<>>;  // by the key of the row

// The record as it will be, but for what only the commit decides: its id, above all others, and where its bytes are.
std::string head_of(const Acknowledged& object) {
  ObjectRecord record{.id = std::numeric_limits<uint64_t>::max(), .info = object.info, .blob = {}};
  record.blob.size = object.bytes.bytes.size();
  if (record.blob.size != 0) record.blob.kind = BlobKind::in_index;
  return encode(record);
}

// Merges two orders; of equal keys the acknowledged object's.
class AcknowledgedCursor final : public store::Cursor {
 public:
  AcknowledgedCursor(std::unique_ptr<store::Cursor> rows, std::shared_ptr<const Heads> heads, std::string prefix,
                     std::string_view from)
      : rows_(std::move(rows)), heads_(std::move(heads)), prefix_(std::move(prefix)) {
    place(from);
  }
  bool valid() const override { return rows_->valid() || (has_head() && rows_->status()); }
  std::string_view key() const override { return at_head() ? std::string_view(head_->first) : rows_->key(); }
  std::string_view value() const override {
    if (!at_head()) return rows_->value();
    value_ = head_of(*head_->second);
    return value_;
  }
  void next() override {
    if (!at_head()) return rows_->next();
    if (rows_->valid() && rows_->key() == head_->first) rows_->next();
    ++head_;
  }
  void seek(std::string_view key) override {
    rows_->seek(key);
    place(key);
  }
  Result<void> status() const override { return rows_->status(); }

 private:
  void place(std::string_view from) { head_ = heads_->lower_bound(std::max(from, std::string_view(prefix_))); }
  bool has_head() const { return head_ != heads_->end() && head_->first.starts_with(prefix_); }
  bool at_head() const { return has_head() && (!rows_->valid() || head_->first <= rows_->key()); }

  std::unique_ptr<store::Cursor> rows_;
  std::shared_ptr<const Heads> heads_;
  const std::string prefix_;
  Heads::const_iterator head_;
  mutable std::string value_;
};

class AcknowledgedMoment final : public Moment {
 public:
  AcknowledgedMoment(std::unique_ptr<Moment> rows, std::shared_ptr<const Heads> heads)
      : rows_(std::move(rows)), heads_(std::move(heads)) {}
  Result<std::string> get(Table table, std::string_view key) override {
    const auto head = table == Table::objects ? heads_->find(key) : heads_->end();
    if (head != heads_->end()) return head_of(*head->second);
    return rows_->get(table, key);
  }
  std::unique_ptr<store::Cursor> cursor(Table table, std::string prefix, std::string_view from) override {
    auto cursor = rows_->cursor(table, prefix, from);
    if (table != Table::objects) return cursor;
    return std::make_unique<AcknowledgedCursor>(std::move(cursor), heads_, std::move(prefix), from);
  }
  bool lost() const override { return rows_->lost(); }

 private:
  const std::unique_ptr<Moment> rows_;
  const std::shared_ptr<const Heads> heads_;
};

}  // namespace

std::unique_ptr<Moment> with_acknowledged(std::unique_ptr<Moment> rows, const std::vector<AcknowledgedPtr>& objects) {
  auto heads = std::make_shared<Heads>();
  for (const auto& object : objects) heads->try_emplace(keys::object(object->bucket->id, object->key), object);
  return std::make_unique<AcknowledgedMoment>(std::move(rows), std::move(heads));
}

}  // namespace verbena::store::local
