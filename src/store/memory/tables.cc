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

std::optional<std::string> Tables::set(Table table, std::string_view key, std::optional<std::string> value,
                                       Rows::iterator& row) {
  Rows& rows = this->rows(table);
  std::optional<std::string> before;
  const bool there = row != rows.end() && row->first == key;
  for (Before* moment : moments_) {
    (*moment)[static_cast<size_t>(table)].try_emplace(std::string(key),
                                                      there ? std::optional(row->second) : std::nullopt);
  }
  if (there) {
    before = std::move(row->second);
    bytes_ -= key.size() + before->size() + row_overhead;
    --count_;
  }
  if (!value) {
    if (there) row = rows.erase(row);
    return before;
  }
  bytes_ += key.size() + value->size() + row_overhead;
  ++count_;
  if (there) {
    row->second = std::move(*value);
  } else {
    row = rows.emplace_hint(row, key, std::move(*value));
  }
  return before;
}

void Tables::begin_moment(Before& before) const {
  const std::shared_lock lock(mutex_);
  const std::lock_guard both(moments_mutex_);
  moments_.insert(&before);
}

void Tables::end_moment(Before& before) const {
  const std::shared_lock lock(mutex_);
  const std::lock_guard both(moments_mutex_);
  moments_.erase(&before);
}

MomentCursor::MomentCursor(const Tables& tables, Table table, std::string prefix, std::string_view from)
    : moment_(tables), cursor_(moment_.cursor(table, std::move(prefix), from)) {}

TableCursor::TableCursor(const Tables& tables, Table table, std::string prefix, std::string_view from,
                         const Tables::Before* before)
    : tables_(tables), table_(table), prefix_(std::move(prefix)), before_(before) {
  seek(from);
}

std::shared_lock<std::shared_mutex> TableCursor::lock() const {
  return before_ != nullptr ? std::shared_lock(tables_.mutex()) : std::shared_lock<std::shared_mutex>();
}

void TableCursor::stand(std::string_view from, bool behind) {
  static const std::map<std::string, std::optional<std::string>, std::less<>> unchanged;
  const auto& rows = tables_.rows(table_);
  const auto& before = before_ == nullptr ? unchanged : (*before_)[static_cast<size_t>(table_)];
  auto now = behind ? rows.upper_bound(from) : rows.lower_bound(from);
  auto then = behind ? before.upper_bound(from) : before.lower_bound(from);
  row_.reset();
  // A row that changed since the moment is read as it was then, which may be absent.
  for (;;) {
    const bool changed = then != before.end() && (now == rows.end() || then->first <= now->first);
    if (!changed && now == rows.end()) return;
    const std::string& key = changed ? then->first : now->first;
    if (!key.starts_with(prefix_)) return;
    if (!changed) {
      row_.emplace(key, now->second);
      return;
    }
    if (then->second) {
      row_.emplace(key, *then->second);
      return;
    }
    if (now != rows.end() && now->first == key) ++now;
    ++then;
  }
}

void TableCursor::seek(std::string_view key) {
  const auto held = lock();
  stand(std::max(key, std::string_view(prefix_)), /*behind=*/false);
}

void TableCursor::next() {
  const auto held = lock();
  const std::string at = std::move(row_->first);
  stand(at, /*behind=*/true);
}

Result<std::string> TablesView::get(Table table, std::string_view key) {
  const std::shared_lock lock(tables_.mutex());
  return find(tables_, table, key);
}

std::unique_ptr<Cursor> TablesView::cursor(Table table, std::string prefix, std::string_view from) {
  return std::make_unique<MomentCursor>(tables_, table, std::move(prefix), from);
}

std::unique_ptr<Moment> TablesView::moment() { return std::make_unique<TablesMoment>(tables_); }

Result<std::string> TablesMoment::get(Table table, std::string_view key) {
  const std::shared_lock lock(tables_.mutex());
  const auto& before = before_[static_cast<size_t>(table)];
  const auto then = before.find(key);
  if (then == before.end()) return find(tables_, table, key);
  if (!then->second) return fail(Errc::not_found, "row");
  return *then->second;
}

std::unique_ptr<Cursor> TablesMoment::cursor(Table table, std::string prefix, std::string_view from) {
  return std::make_unique<TableCursor>(tables_, table, std::move(prefix), from, &before_);
}

// The first row from `key` on. First looks where it looked before: a row that changes has just been read.
Tables::Rows::iterator& TablesTransaction::place_of(Table table, std::string_view key) {
  Tables::Rows& rows = tables_.rows(table);
  auto& last = last_places_[static_cast<size_t>(table)];
  const auto is_it = [&](Tables::Rows::iterator at) {
    const int order = at == rows.end() ? 1 : at->first.compare(key);
    return order == 0 || (order > 0 && (at == rows.begin() || std::prev(at)->first < key));
  };
  if (!last || !is_it(*last)) last = rows.lower_bound(key);
  return *last;
}

Result<std::string> TablesTransaction::get(Table table, std::string_view key) {
  const auto row = place_of(table, key);
  if (row == tables_.rows(table).end() || row->first != key) return fail(Errc::not_found, "row");
  return row->second;
}

std::unique_ptr<Cursor> TablesTransaction::cursor(Table table, std::string prefix, std::string_view from) {
  return std::make_unique<TableCursor>(tables_, table, std::move(prefix), from, nullptr);
}

TablesTransaction::~TablesTransaction() {
  notes_.before.clear();
  notes_.dead.clear();
  notes_.effects.clear();
}

void TablesTransaction::set(Table table, std::string_view key, std::optional<std::string> value) {
  std::string name(key);
  auto before = tables_.set(table, name, std::move(value), place_of(table, name));
  notes_.before.push_back({table, std::move(name), std::move(before)});
}

void TablesTransaction::put(Table table, std::string_view key, std::string_view value) {
  set(table, key, std::string(value));
}

void TablesTransaction::erase(Table table, std::string_view key) { set(table, key, std::nullopt); }

void TablesTransaction::take_back() {
  for (auto change = notes_.before.rbegin(); change != notes_.before.rend(); ++change) {
    tables_.set(change->table, change->key, std::move(change->value), place_of(change->table, change->key));
  }
  notes_.before.clear();
}

void TablesTransaction::run_effects() {
  for (auto& effect : notes_.effects) effect();
}

}  // namespace verbena::store::in_memory
