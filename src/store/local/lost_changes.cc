// What damage took with it: rows whose bucket or upload has no record any more are removed, of overlapping extents the
// older one, and counts that may no longer agree. Only a start with accept_data_loss does any of this.
#include <set>

#include "base/log.h"
#include "store/local/catalogue.h"
#include "store/local/engine.h"

namespace verbena::store::local {
namespace {

// Adds the ids of the buckets (or uploads) that have rows: each is the number behind the prefix. Seeks from one to the
// next.
Result<void> add_owners(Index& index, Family family, const std::string& prefix, std::set<uint64_t>& owners) {
  Cursor cursor = index.cursor(family, prefix);
  while (cursor.valid()) {
    const std::string_view number = cursor.key().substr(prefix.size());
    if (number.size() < sizeof(uint64_t)) {  // the mark that Index::recover() leaves
      cursor.next();
      continue;
    }
    const uint64_t owner = keys::read_number(number.substr(0, sizeof(uint64_t)));
    owners.insert(owner);
    if (owner == UINT64_MAX) break;
    cursor.seek(prefix + keys::number(owner + 1));
  }
  return cursor.status();
}

std::string letter_of(const std::string& prefix) { return prefix.substr(0, 1); }

}  // namespace

// Damage to the log may have taken the record of a bucket and left what was written into the bucket later, or its
// removal, and with it the removal of its documents, and left a later bucket of the name. What belongs to no bucket
// goes: documents now, the rest as that of a removed bucket. Not only in the start that met the damage, which may have
// ended before this.
Result<void> Engine::abandon_lost_buckets() {
  std::set<uint64_t> there, found;
  Cursor records = index->cursor(Family::meta, keys::bucket_prefix());
  for (; records.valid(); records.next()) {
    VB_ASSIGN(const BucketRecord record, decode_bucket(records.value()));
    there.insert(record.id);
  }
  VB_TRY(records.status());
  VB_TRY(add_owners(*index, Family::meta, keys::document_prefix(), found));
  VB_TRY(add_owners(*index, Family::meta, keys::usage_prefix(), found));
  VB_TRY(add_owners(*index, Family::objects, "", found));
  VB_TRY(add_owners(*index, Family::versions, "", found));
  for (const std::string& prefix : {keys::upload_prefix(0), keys::null_version_prefix(0), keys::rename_token_prefix(0),
                                    keys::rename_age_prefix(0)}) {
    VB_TRY(add_owners(*index, Family::uploads, letter_of(prefix), found));
  }
  std::erase_if(found, [&](uint64_t bucket) { return there.contains(bucket); });
  if (found.empty()) return {};
  Batch batch(*index);
  VB_TRY(forget_usages(batch));
  for (const uint64_t bucket : found) {
    Cursor documents = index->cursor(Family::meta, keys::document_prefix(bucket));
    for (; documents.valid(); documents.next()) batch.erase(Family::meta, documents.key());
    VB_TRY(documents.status());
    batch.put(Family::meta, keys::removed_bucket(bucket), "");
  }
  log::error("store: what is left of {} buckets without a record is removed", found.size());
  VB_TRY(index->write(batch));
  return index->sync();
}

// Takes out the blobs that objects name. Looks at all of them.
Result<void> Engine::leave_named(std::set<uint64_t>& blobs) const {
  Cursor lists = index->cursor(Family::uploads, letter_of(keys::object_parts(0)));
  for (; lists.valid(); lists.next()) {
    const auto parts = decode_parts(lists.value());
    if (!parts) continue;  // nor can a reader use it
    for (const StoredPart& part : *parts) blobs.erase(part.blob.id);
  }
  VB_TRY(lists.status());
  for (const Family family : {Family::objects, Family::versions}) {
    Cursor heads = index->cursor(family, "");
    for (; heads.valid(); heads.next()) {
      const auto record = decode_object(heads.value());
      if (record && record->part_count == 0) blobs.erase(record->blob.id);
    }
    VB_TRY(heads.status());
  }
  return {};
}

// Likewise the parts of an upload whose beginning is lost: an upload is found by its own row. Where its completion is
// lost as well, a later change of the object, an append, may have kept what it named.
Result<void> Engine::remove_lost_parts() {
  std::set<uint64_t> there, found;
  Cursor uploads = index->cursor(Family::uploads, letter_of(keys::upload_prefix(0)));
  for (; uploads.valid(); uploads.next()) {
    VB_ASSIGN(const UploadRecord record, decode_upload(uploads.value()));
    there.insert(record.id);
  }
  VB_TRY(uploads.status());
  VB_TRY(add_owners(*index, Family::uploads, letter_of(keys::part_prefix(0)), found));
  std::erase_if(found, [&](uint64_t upload) { return there.contains(upload); });
  if (found.empty()) return {};
  std::set<uint64_t> unnamed;
  for (const uint64_t upload : found) {
    Cursor parts = index->cursor(Family::uploads, keys::part_prefix(upload));
    for (; parts.valid(); parts.next()) {
      VB_ASSIGN(const StoredPart part, decode_part(parts.value()));
      unnamed.insert(part.blob.id);
    }
    VB_TRY(parts.status());
  }
  if (const auto known = leave_named(unnamed); !known) {
    log::error("store: the parts of {} uploads without a record stay: {}", found.size(), describe(known.error()));
    return {};
  }
  Batch first(*index);  // what is removed here is taken from no count
  VB_TRY(forget_usages(first));
  if (!first.empty()) VB_TRY(index->write(first));
  const std::function<uint64_t()> ids = [this] { return next_id(); };
  for (const uint64_t upload : found) {
    IndexTransaction transaction(*index, ids, options.clock->now_us());
    Cursor parts = index->cursor(Family::uploads, keys::part_prefix(upload));
    for (; parts.valid(); parts.next()) {
      VB_ASSIGN(const StoredPart part, decode_part(parts.value()));
      if (unnamed.contains(part.blob.id)) transaction.kill(part.blob);
      transaction.erase(Table::uploads, parts.key());
    }
    VB_TRY(parts.status());
    VB_TRY(index->write(transaction.batch()));
  }
  log::error("store: the parts of {} uploads without a record are removed", found.size());
  return index->sync();
}

// Changes are missing in the index: its counts may differ from its rows. A bucket without a row is not counted yet, and
// Recount counts it, in this start or, if this one ends before, in another.
Result<void> Engine::forget_usages(Batch& batch) const {
  Cursor rows = index->cursor(Family::meta, keys::usage_prefix());
  for (; rows.valid(); rows.next()) batch.erase(Family::meta, rows.key());
  return rows.status();
}

// What damage to the log has brought back may name space that is another blob's since. Ids grow, so of two extents that
// overlap the one of the greater id was written last: the other's bytes are lost.
Result<void> Engine::resolve_overlaps() {
  Batch batch(*index);
  std::optional<std::pair<uint64_t, uint64_t>> last;  // volume, offset
  uint64_t end = 0, owner_of_last = 0, lost = 0;
  Cursor cursor = index->cursor(Family::extents, "");
  for (; cursor.valid(); cursor.next()) {
    if (cursor.key().empty()) continue;  // the mark that Index::recover() leaves
    const auto place = keys::parse_extent(cursor.key());
    VB_ASSIGN(const ExtentOwner owner, decode_extent_owner(cursor.value()));
    if (!place) return fail(Errc::corrupt_object, "store: space map");
    if (last && last->first == place->first && place->second < end) {
      ++lost;
      const bool newer = owner.blob > owner_of_last;
      batch.erase(Family::extents, newer ? keys::extent(last->first, last->second) : std::string(cursor.key()));
      if (!newer) continue;
    }
    last = place;
    end = place->second + owner.length;
    owner_of_last = owner.blob;
  }
  VB_TRY(cursor.status());
  if (lost == 0) return {};
  log::error("store: {} extents that damage to the log brought back have been overwritten since", lost);
  VB_TRY(index->write(batch));
  return index->sync();
}

}  // namespace verbena::store::local
