#include "store/rados/rows/pair_change.h"

#include <algorithm>

#include "store/logic/keys.h"
#include "store/logic/record.h"

namespace verbena::store::rados {

// A list of parts has an id only: it belongs to the source or the target.
Result<std::string> PairTransaction::get(Table table, std::string_view key) {
  const auto& written = written_[static_cast<size_t>(table)];
  const auto found = written.find(std::string(key));
  if (found != written.end() && !found->second) return fail(Errc::not_found, "row");
  if (found != written.end()) return *found->second;
  if (table == Table::objects) {
    const bool is_target = key == keys::object(to_.place().bucket, to_.place().key);
    return (is_target ? to_ : from_).get(table, key);
  }
  auto value = from_.get(table, key);
  if (table != Table::uploads || !keys::is_object_parts(key)) return value;
  if (value || !(value.error() == Errc::not_found)) return value;
  return to_.get(table, key);
}

std::unique_ptr<Cursor> PairTransaction::cursor(Table table, std::string prefix, std::string_view from) {
  return from_.cursor(table, std::move(prefix), from);
}

void PairTransaction::put(Table table, std::string_view key, std::string_view value) {
  written_[static_cast<size_t>(table)].insert_or_assign(std::string(key), std::string(value));
}

void PairTransaction::erase(Table table, std::string_view key) {
  written_[static_cast<size_t>(table)].insert_or_assign(std::string(key), std::nullopt);
}

void PairTransaction::kill_named(const BlobRef& blob) {
  if (blob.kind == BlobKind::in_index) dead_inline_.push_back(blob);
  if (blob.kind == BlobKind::extents) dead_.push_back(blob);
}

Result<uint64_t> PairTransaction::next_id() {
  if (!from_.version_token() || !to_.version_token()) {
    from_.ask_version_token();
    to_.ask_version_token();
    return fail(Errc::would_block, "rados: version token");
  }
  VB_ASSIGN(const uint64_t one, from_.greatest_id());
  VB_ASSIGN(const uint64_t other, to_.greatest_id());
  last_id_ = ids_.next(std::max({one, other, last_id_}), now_us_);
  return last_id_;
}

Result<int64_t> PairTransaction::left_us(uint64_t, std::string_view key) {
  Rows& rows = key == to_.place().key ? to_ : from_;
  if (!rows.version_token()) {
    rows.ask_version_token();
    return fail(Errc::would_block, "rados: version token");
  }
  VB_ASSIGN(const VersionToken version_token, rows.decoded_version_token());
  return version_token.left_us;
}

bool PairTransaction::empty() const {
  return std::ranges::all_of(written_, [](const auto& written) { return written.empty(); });
}

void PairTransaction::run_effects() {
  for (auto& effect : effects_) effect();
}

Result<void> PairTransaction::follow() {
  const Place &from = from_.place(), &to = to_.place();
  const auto& objects = written_[static_cast<size_t>(Table::objects)];
  const auto head = objects.find(keys::object(to.bucket, to.key));
  if (head == objects.end() || !head->second) return {};  // a rename onto itself, or a repeated one
  VB_ASSIGN(const ObjectRecord record, decode_object(*head->second));
  last_id_ = std::max(last_id_, record.id);
  const auto move = [this](std::string away, std::string here, std::string value) {
    moved_here_.bytes += here.size() + value.size();
    moved_away_.gone.insert(std::move(away));
    moved_here_.sets.insert_or_assign(std::move(here), std::move(value));
  };
  std::vector<BlobRef> blobs = {record.blob};
  if (record.part_count != 0) {
    const std::string list = keys::object_parts(record.id);
    VB_ASSIGN(std::string value, from_.get(Table::uploads, list));
    VB_ASSIGN(const auto parts, decode_parts_of(record, value));
    blobs.clear();
    for (const StoredPart& part : parts) blobs.push_back(part.blob);
    move(family(from, Table::uploads, list).to_stored(list), family(to, Table::uploads, list).to_stored(list),
         std::move(value));
  }
  std::erase_if(blobs, [](const BlobRef& blob) { return blob.kind != BlobKind::in_index; });
  uint64_t bytes = 0;
  for (const BlobRef& blob : blobs) bytes += blob.size;
  if (bytes > moved_bytes_max || blobs.size() > moved_rows_max) {
    return fail(Errc::not_implemented, "The object has too many small pieces to be renamed in a Ceph cluster.");
  }
  bool waits = false;
  for (const BlobRef& blob : blobs) {
    auto value = from_.get_inline(blob.id);
    if (!value && value.error() == Errc::would_block) {
      waits = true;  // requests the others too
    } else if (!value) {
      return fail(Errc::corrupt_object, "rados: a small blob is missing");
    } else {
      move(inline_row(from.key, blob.id), inline_row(to.key, blob.id), std::move(*value));
    }
  }
  if (waits) return fail(Errc::would_block, "rados: small blobs");
  return {};
}

Result<PairTransaction::Parts> PairTransaction::parts() const {
  const Place &from = from_.place(), &to = to_.place();
  Parts parts{moved_away_, moved_here_};
  const auto set = [](Part& part, std::string row, std::string value) {
    part.bytes += row.size() + value.size();
    part.sets.insert_or_assign(std::move(row), std::move(value));
  };
  bool source_gone = false;
  for (const auto& [key, value] : written_[static_cast<size_t>(Table::objects)]) {
    const bool is_target = key == keys::object(to.bucket, to.key);
    std::string row = family(from, Table::objects, key).to_stored(key);
    source_gone |= !value && !is_target;
    if (value) {
      set(is_target ? parts.target : parts.source, std::move(row), *value);
    } else {
      (is_target ? parts.target : parts.source).gone.insert(std::move(row));
    }
  }
  for (const auto& [key, value] : written_[static_cast<size_t>(Table::uploads)]) {
    // A removed list was the target's; tokens are stored with the source, ends with their key.
    const auto end = keys::parse_end(key);
    const bool is_target = end ? end->key == to.key : keys::is_object_parts(key);
    std::string row = family(is_target ? to : from, Table::uploads, key).to_stored(key);
    if (value) {
      // The cluster treats an absent row as empty, so no stored row is empty.
      set(is_target ? parts.target : parts.source, std::move(row), value->empty() ? std::string(1, '\0') : *value);
    } else {
      (is_target ? parts.target : parts.source).gone.insert(std::move(row));
    }
  }
  for (const BlobRef& blob : dead_inline_) parts.target.gone.insert(inline_row(to.key, blob.id));
  for (const BlobRef& blob : dead_) set(parts.target, dead_row(blob.id), keys::number(blob.size));
  VB_ASSIGN(VersionToken source, from_.decoded_version_token());
  VB_ASSIGN(VersionToken target, to_.decoded_version_token());
  VB_ASSIGN(source.last_id, from_.greatest_id());
  VB_ASSIGN(target.last_id, to_.greatest_id());
  parts.source.version_tokens.emplace(version_token_row(from.key), *from_.version_token());
  parts.target.version_tokens.emplace(version_token_row(to.key), *to_.version_token());
  if (from_.version_token()->empty()) parts.source.fence = from_.fence();
  if (to_.version_token()->empty()) parts.target.fence = to_.fence();
  target.last_id = std::max({target.last_id, source.last_id, last_id_});
  target.token = source.token = random_number();
  target.leases.clear();
  source.leases.clear();
  target.left_us = 0;
  if (source_gone) {
    source.left_us = std::max(source.left_us, left_us_);
    set(parts.source, tombstone_row(now_us_, from.key), encode(source));
  }
  set(parts.source, version_token_row(from.key), encode(source));
  set(parts.target, version_token_row(to.key), encode(target));
  parts.target.counted = counted_;
  return parts;
}

Part PairTransaction::joined(Parts parts) {
  Part part = std::move(parts.source);
  part.version_tokens.merge(parts.target.version_tokens);
  // For one tablet. If two reads of it found different fences, the change is judged again: this fence matches none,
  // because every fence has a number.
  const bool differ = part.fence && parts.target.fence && *part.fence != *parts.target.fence;
  if (!part.fence) part.fence = parts.target.fence;
  if (differ) part.fence = "none";
  part.gone.merge(parts.target.gone);
  for (auto& [row, value] : parts.target.sets) part.sets.insert_or_assign(row, std::move(value));
  part.bytes += parts.target.bytes;
  part.counted += parts.target.counted;
  return part;
}

}  // namespace verbena::store::rados
