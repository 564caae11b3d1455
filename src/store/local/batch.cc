#include "store/local/batch.h"

#include <functional>

namespace verbena::store::local {
namespace {

uint32_t hash_of(Family family, std::string_view key) {
  return static_cast<uint32_t>(std::hash<std::string_view>{}(key)) + static_cast<uint32_t>(family);
}

}  // namespace

std::string_view Batch::key_of(const Row& row) const {
  return std::string_view(text_).substr(row.key_at, row.value_at - row.key_at);
}

std::string_view Batch::value_of(const Row& row) const {
  const bool last = &row == &rows_.back();
  const size_t end = last ? text_.size() : (&row)[1].key_at;
  return std::string_view(text_).substr(row.value_at, end - row.value_at);
}

void Batch::link(uint32_t row) {
  uint32_t& newest = newest_[rows_[row].hash & (newest_.size() - 1)];
  rows_[row].before = std::exchange(newest, row);
}

void Batch::note(Family family, std::string_view key, const std::string_view* value) {
  const auto number = static_cast<uint32_t>(rows_.size());
  rows_.push_back({.family = family,
                   .erased = value == nullptr,
                   .hash = hash_of(family, key),
                   .before = none,
                   .key_at = text_.size(),
                   .value_at = text_.size() + key.size()});
  text_.append(key);
  if (value != nullptr) text_.append(*value);
  if (rows_.size() <= newest_.size()) return link(number);
  newest_.assign(std::max<size_t>(64, newest_.size() * 2), none);
  for (uint32_t row = 0; row <= number; ++row) link(row);
}

const Batch::Row* Batch::find(Family family, std::string_view key) const {
  if (rows_.empty()) return nullptr;
  const uint32_t hash = hash_of(family, key);
  for (uint32_t i = newest_[hash & (newest_.size() - 1)]; i != none; i = rows_[i].before) {
    const Row& row = rows_[i];
    if (row.hash == hash && row.family == family && key_of(row) == key) return &row;
  }
  return nullptr;
}

void Batch::put(Family family, std::string_view key, std::string_view value) {
  put_unread(family, key, value);
  note(family, key, &value);
}

void Batch::erase(Family family, std::string_view key) {
  erase_unread(family, key);
  note(family, key, nullptr);
}

void Batch::put_unread(Family family, std::string_view key, std::string_view value) {
  (void)batch_.Put(index_.handle(family), slice(key), slice(value));
  ++changes_;
}

void Batch::erase_unread(Family family, std::string_view key) {
  (void)batch_.Delete(index_.handle(family), slice(key));
  ++changes_;
  ++removals_[static_cast<size_t>(family)];
}

void Batch::save() {
  batch_.SetSavePoint();
  saved_changes_ = changes_;
  saved_rows_ = rows_.size();
}

void Batch::roll_back() {
  (void)batch_.RollbackToSavePoint();
  changes_ = saved_changes_;
  // Newest first: each row is then the first of its place.
  while (rows_.size() > saved_rows_) {
    const Row& row = rows_.back();
    newest_[row.hash & (newest_.size() - 1)] = row.before;
    text_.resize(row.key_at);
    rows_.pop_back();
  }
  for (Ordered& ordered : ordered_) {
    if (ordered.seen > rows_.size()) ordered = {};
  }
}

void Batch::expect(size_t bytes) {
  if (empty()) batch_ = rocksdb::WriteBatch(bytes);
}

Result<std::string> Batch::get(Family family, std::string_view key) {
  const Row* const row = find(family, key);
  if (row == nullptr) return index_.get(family, key);
  if (row->erased) return fail(Errc::not_found, "get");
  return std::string(value_of(*row));
}

// Cursors of one batch are used one after the other: each reuses the order of the previous one and adds new rows.
Cursor Batch::cursor(Family family, std::string prefix) {
  auto* const handle = index_.handle(family);
  Ordered& ordered = ordered_[static_cast<size_t>(family)];
  // Another cursor still uses the old order.
  if (ordered.seen != rows_.size() && ordered.rows.use_count() > 1) ordered = {};
  for (; ordered.seen != rows_.size(); ++ordered.seen) {
    const Row& row = rows_[ordered.seen];
    if (row.family != family) continue;
    if (!ordered.rows) {
      ordered.rows = std::make_shared<rocksdb::WriteBatchWithIndex>(rocksdb::BytewiseComparator(), 0,
                                                                    /*overwrite_key=*/true);
    }
    if (row.erased) {
      (void)ordered.rows->Delete(handle, slice(key_of(row)));
    } else {
      (void)ordered.rows->Put(handle, slice(key_of(row)), slice(value_of(row)));
    }
  }
  return index_.cursor_over(ordered.rows, family, std::move(prefix));
}

}  // namespace verbena::store::local
