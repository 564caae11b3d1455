#include "store/rados/rows/change.h"

#include <algorithm>

#include "base/bytes.h"
#include "store/logic/keys.h"
#include "store/rados/rows/event_rows.h"

namespace verbena::store::rados {
namespace {

// Rows of which a key has at least one while it has an object, a version or an open upload.
bool keeps_key(Table table, std::string_view key) {
  return table == Table::objects || table == Table::versions || (table == Table::uploads && key.starts_with('u'));
}

// An event's row in its table.
bool is_event(Table table, std::string_view key) { return table == Table::uploads && key.starts_with('e'); }
std::string queue_of(std::string_view key) { return std::string(key.substr(1, key.find('\0') - 1)); }

// Fetched rows, overlaid with those that the transaction has written.
class WrittenCursor final : public Cursor {
 public:
  WrittenCursor(std::unique_ptr<Cursor> rows, const KeyTransaction::Written& written, std::string prefix,
                std::string_view from)
      : rows_(std::move(rows)),
        written_(written),
        prefix_(std::move(prefix)),
        at_(std::max(from, std::string_view(prefix_))) {}

  bool valid() const override { return stand(); }
  std::string_view key() const override { return stand(), key_; }
  std::string_view value() const override { return stand(), value_; }
  void next() override {
    stand();
    at_ = key_ + '\0';
  }
  void seek(std::string_view key) override {
    at_ = std::max(key, std::string_view(prefix_));
    rows_->seek(at_);
  }
  Result<void> status() const override {
    stand();
    return blocked_ ? rows_->status() : Result<void>();
  }

 private:
  // Judges change rows under their cursors, so the position is searched again.
  bool stand() const {
    while (rows_->valid() && (rows_->key() < at_ || written_.contains(std::string(rows_->key())))) rows_->next();
    const bool has_row = rows_->valid();
    blocked_ = !has_row && !rows_->status();
    if (blocked_) return false;
    auto own = written_.lower_bound(at_);
    while (own != written_.end() && !own->second) ++own;
    const bool has_own = own != written_.end() && own->first.starts_with(prefix_);
    if (!has_row && !has_own) return false;
    if (has_own && (!has_row || own->first < rows_->key())) {
      key_ = own->first;
      value_ = *own->second;
    } else {
      key_ = rows_->key();
      value_ = rows_->value();
    }
    return true;
  }

  const std::unique_ptr<Cursor> rows_;
  const KeyTransaction::Written& written_;
  const std::string prefix_;
  std::string at_;
  mutable std::string key_, value_;
  mutable bool blocked_ = false;
};

}  // namespace

uint64_t random_number() {
  std::byte bytes[8];
  fill_random(bytes);
  return keys::read_number(as_text(bytes));
}

uint64_t Ids::next(uint64_t above, int64_t now_us) {
  uint64_t last = last_step_.load();
  uint64_t step = 0;
  do {
    step = std::max({static_cast<uint64_t>(now_us), last + 1, (above >> slot_bits) + 1});
  } while (!last_step_.compare_exchange_weak(last, step));
  return step << slot_bits | slot_;
}

Result<std::string> KeyTransaction::get(Table table, std::string_view key) {
  const auto found = written(table).find(std::string(key));
  if (found == written(table).end()) {
    rests_on_upload_ |= table == Table::uploads && key.starts_with('u');
    return rows_.get(table, key);
  }
  if (!found->second) return fail(Errc::not_found, "row");
  return *found->second;
}

std::unique_ptr<Cursor> KeyTransaction::cursor(Table table, std::string prefix, std::string_view from) {
  auto rows = rows_.cursor(table, prefix, from);
  return std::make_unique<WrittenCursor>(std::move(rows), written(table), std::move(prefix), from);
}

void KeyTransaction::put(Table table, std::string_view key, std::string_view value) {
  written_[static_cast<size_t>(table)].insert_or_assign(std::string(key), std::string(value));
}

void KeyTransaction::erase(Table table, std::string_view key) {
  written_[static_cast<size_t>(table)].insert_or_assign(std::string(key), std::nullopt);
}

void KeyTransaction::kill_named(const BlobRef& blob) {
  if (blob.kind == BlobKind::in_index) dead_inline_.push_back(blob);
  if (blob.kind == BlobKind::extents) dead_.push_back(blob);
}

// Greater than any id that the key had: by its version token, or its tablet's fence if the token was swept.
Result<uint64_t> KeyTransaction::next_id() {
  if (rows_.place().bucket == 0) {
    wants_bucket_id_ = bucket_id_ == 0;
    if (wants_bucket_id_) return fail(Errc::would_block, "rados: id of a bucket");
    return bucket_id_;
  }
  if (!rows_.version_token()) {
    rows_.ask_version_token();
    return fail(Errc::would_block, "rados: version token");
  }
  VB_ASSIGN(const uint64_t greatest, rows_.greatest_id());
  last_id_ = ids_.next(std::max(greatest, last_id_), now_us_);
  return last_id_;
}

Result<int64_t> KeyTransaction::left_us(uint64_t, std::string_view) {
  if (!rows_.version_token()) {
    rows_.ask_version_token();
    return fail(Errc::would_block, "rados: version token");
  }
  VB_ASSIGN(const VersionToken version_token, rows_.decoded_version_token());
  return version_token.left_us;
}

bool KeyTransaction::empty() const {
  const bool rows = std::ranges::all_of(written_, [](const Written& written) { return written.empty(); });
  return rows && dead_.empty() && dead_inline_.empty() && !abandoned_;
}

bool KeyTransaction::changes_objects() const {
  return !written(Table::objects).empty() || !written(Table::uploads).empty() || !written(Table::versions).empty();
}

std::set<std::string> KeyTransaction::queues() const {
  std::set<std::string> queues;
  for (const auto& [key, value] : written(Table::uploads)) {
    if (is_event(Table::uploads, key)) queues.insert(queue_of(key));
  }
  return queues;
}

void KeyTransaction::run_effects() {
  for (auto& effect : effects_) effect();
}

Result<Part> KeyTransaction::part() const {
  Part part;
  const Place& place = rows_.place();
  const auto set = [&part](std::string row, std::string value) {
    part.bytes += row.size() + value.size();
    part.sets.insert_or_assign(std::move(row), std::move(value));
  };
  bool may_be_last = false, has_object = false, has_rows = false;
  for (const Table table : {Table::objects, Table::uploads, Table::versions}) {
    for (const auto& [key, value] : written(table)) {
      if (is_event(table, key)) {
        const auto event = keys::parse_event(key);
        if (!event || !value) return fail(Errc::internal, "rados: event");
        set(event_row(queue_of(key), event->second, value->size()), *value);
        continue;
      }
      std::string row = family(place, table, key).to_stored(key);
      has_rows |= value.has_value();
      part.sets_end |= value && row.starts_with(ends_prefix);
      may_be_last |= !value && keeps_key(table, key);
      has_object |= table == Table::objects && value;
      if (value) {
        // The cluster treats an absent row as empty, so no stored row is empty.
        set(std::move(row), value->empty() ? std::string(1, '\0') : *value);
      } else {
        part.gone.insert(std::move(row));
      }
    }
  }
  for (const BlobRef& blob : dead_inline_) part.gone.insert(inline_row(place.key, blob.id));
  for (const BlobRef& blob : dead_) set(dead_row(blob.id), keys::number(blob.size));
  const std::string& seen = *rows_.version_token();
  VB_ASSIGN(VersionToken next, rows_.decoded_version_token());
  VB_ASSIGN(const uint64_t greatest, rows_.greatest_id());
  const std::string name = version_token_row(place.key);
  part.version_tokens.emplace(name, seen);
  if (seen.empty()) part.fence = rows_.fence();
  part.counted = counted_;
  next.last_id = std::max(greatest, last_id_);
  next.token = token_;
  next.leases.clear();
  // A later object has a later time than a removed one.
  if (left_us_ != 0) next.left_us = std::max(next.left_us, left_us_);
  if (has_object && left_us_ == 0) next.left_us = 0;
  const std::string version_token = encode(next);
  // Whether something of the key is left is known to the sweep.
  if (may_be_last && !has_rows) set(tombstone_row(now_us_, place.key), version_token);
  set(name, version_token);
  return part;
}

}  // namespace verbena::store::rados
