#include "store/memory/tables.h"

#include <algorithm>

namespace verbena::store::in_memory {
namespace {

constexpr uint64_t row_overhead = 128;  // of a row beside its bytes, roughly

Result<std::string> find(const Tables& tables, Table table, std::string_view key) {
  const auto& rows = tables.rows(table);
  const auto row = rows.find(key);
  if (row == rows.end()) return fail(Errc::not_found, "row");
  return row->second;
}

}  // namespace

std::optional<std::string> Tables::set(Table table, std::string_view key, std::optional<std::string> value) {
  Rows& rows = this->rows(table);
  std::optional<std::string> before;
  auto row = rows.lower_bound(key);
  const bool there = row != rows.end() && row->first == key;
  if (there) {
    before = std::move(row->second);
    bytes_ -= key.size() + before->size() + row_overhead;
    --count_;
  }
  if (!value) {
    if (there) rows.erase(row);
    return before;
  }
  bytes_ += key.size() + value->size() + row_overhead;
  ++count_;
  if (there) {
    row->second = std::move(*value);
  } else {
    rows.emplace_hint(row, key, std::move(*value));
  }
  return before;
}

TableCursor::TableCursor(const Tables& tables, Table table, std::string prefix, std::string_view from, bool locks)
    : tables_(tables), table_(table), prefix_(std::move(prefix)), locks_(locks) {
  seek(from);
}

std::shared_lock<std::shared_mutex> TableCursor::lock() const {
  return locks_ ? std::shared_lock(tables_.mutex()) : std::shared_lock<std::shared_mutex>();
}

void TableCursor::stand(const Tables::Rows& rows, Tables::Rows::const_iterator at) {
  if (at == rows.end() || !at->first.starts_with(prefix_)) {
    row_.reset();
  } else {
    row_.emplace(at->first, at->second);
  }
}

void TableCursor::seek(std::string_view key) {
  const auto held = lock();
  const auto& rows = tables_.rows(table_);
  stand(rows, rows.lower_bound(std::max(key, std::string_view(prefix_))));
}

void TableCursor::next() {
  const auto held = lock();
  const auto& rows = tables_.rows(table_);
  stand(rows, rows.upper_bound(row_->first));
}

Result<std::string> TablesView::get(Table table, std::string_view key) {
  const std::shared_lock lock(tables_.mutex());
  return find(tables_, table, key);
}

std::unique_ptr<Cursor> TablesView::cursor(Table table, std::string prefix, std::string_view from) {
  return std::make_unique<TableCursor>(tables_, table, std::move(prefix), from, /*locks=*/true);
}

Result<std::string> TablesTransaction::get(Table table, std::string_view key) { return find(tables_, table, key); }

std::unique_ptr<Cursor> TablesTransaction::cursor(Table table, std::string prefix, std::string_view from) {
  return std::make_unique<TableCursor>(tables_, table, std::move(prefix), from, /*locks=*/false);
}

void TablesTransaction::set(Table table, std::string_view key, std::optional<std::string> value) {
  std::string name(key);
  auto before = tables_.set(table, name, std::move(value));
  before_.push_back({table, std::move(name), std::move(before)});
}

void TablesTransaction::put(Table table, std::string_view key, std::string_view value) {
  set(table, key, std::string(value));
}

void TablesTransaction::erase(Table table, std::string_view key) { set(table, key, std::nullopt); }

void TablesTransaction::take_back() {
  for (auto change = before_.rbegin(); change != before_.rend(); ++change) {
    tables_.set(change->table, change->key, std::move(change->value));
  }
  before_.clear();
}

void TablesTransaction::run_effects() {
  for (auto& effect : effects_) effect();
}

}  // namespace verbena::store::in_memory
