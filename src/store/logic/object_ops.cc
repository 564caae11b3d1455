#include "store/logic/object_ops.h"

#include <algorithm>

#include "store/logic/ends.h"
#include "store/logic/usage.h"
#include "store/logic/versions.h"

namespace verbena::store {
namespace {

bool matches(const std::string& wanted, const ObjectRecord& object) {
  return wanted == "*" || wanted == object.info.etag;
}

}  // namespace

Result<std::optional<std::string>> find_row(View& rows, Table table, std::string_view key) {
  auto value = rows.get(table, key);
  if (!value && value.error() == Errc::not_found) return std::nullopt;
  if (!value) return std::unexpected(value.error());
  return std::move(*value);
}

Result<int64_t> time_after(Transaction& transaction, uint64_t bucket, std::string_view key, const ObjectInfo* before,
                           int64_t at_us) {
  VB_ASSIGN(int64_t last, transaction.left_us(bucket, key));
  if (before != nullptr) last = std::max(last, before->modified_us);
  return std::max(at_us, last + 1);
}

Result<ObjectRecord> new_record(Transaction& transaction, const Bucket& of, const BucketRecord& bucket, ObjectInfo info,
                                int64_t at_us, End end) {
  if (info.lock != ObjectLock{} && !bucket.info.lock.enabled) {
    return fail(Errc::invalid_request, "Bucket is missing Object Lock Configuration.");
  }
  VB_ASSIGN(const uint64_t id, transaction.next_id());
  ObjectRecord record{.id = id, .info = std::move(info), .blob = {}, .part_count = 0};
  record.info.modified_us = at_us;
  // A key's time may be ahead of the clock.
  if (end == End::of_ttl) set_end(record.info, of.ttl_from(std::min(at_us, transaction.now_us())));
  if (end_us_of(record.info) != 0 && !of.takes_ends()) {
    return fail(Errc::not_implemented, "This store does not keep ends of objects (x-verbena-ttl).");
  }
  record.info.delete_marker = false;
  record.info.version_id.clear();
  if (bucket.info.versioning == Versioning::enabled) record.info.version_id = make_version_id(record.id);
  apply_default_retention(record.info.lock, bucket.info.lock, at_us);
  return record;
}

Result<ObjectRecord> replace_current(Transaction& transaction, const Bucket& of, const BucketRecord& bucket,
                                     std::string_view key, const std::optional<ObjectRecord>& current, ObjectInfo info,
                                     const BlobRef& blob, int64_t at_us, End end) {
  VB_TRY(step_aside(transaction, of, bucket, key, current));
  VB_ASSIGN(const int64_t time_us, time_after(transaction, bucket.id, key, info_of(current), at_us));
  VB_ASSIGN(ObjectRecord record, new_record(transaction, of, bucket, std::move(info), time_us, end));
  record.blob = blob;
  transaction.put(Table::objects, keys::object(bucket.id, key), encode(record));
  move_end(transaction, bucket.id, key, info_of(current), &record.info);
  transaction.count(as_current(record));
  return record;
}

Result<BucketRecord> check_bucket(View& rows, const Bucket& bucket) {
  VB_ASSIGN(auto value, find_row(rows, Table::meta, keys::bucket(bucket.name)));
  if (!value) return fail(Errc::no_such_bucket);
  VB_ASSIGN(BucketRecord record, decode_bucket(*value));
  if (record.id != bucket.id) return fail(Errc::no_such_bucket);
  return record;
}

Result<std::optional<ObjectRecord>> find_object(View& rows, const Bucket& bucket, std::string_view key) {
  VB_ASSIGN(auto value, find_row(rows, Table::objects, keys::object(bucket.id, key)));
  if (!value) return std::nullopt;
  return decode_object(*value);
}

Result<void> check_conditions(const Bucket& bucket, const std::optional<ObjectRecord>& current,
                              const CommitConditions& conditions) {
  if (!conditions.if_match && !conditions.if_none_match) return {};
  const bool there = current && !bucket.is_gone(current->info);
  if (conditions.if_match) {
    if (!there) return fail(Errc::no_such_key, "if-match: no object");
    if (!matches(*conditions.if_match, *current)) return fail(Errc::precondition_failed, "if-match");
  }
  if (conditions.if_none_match && there && matches(*conditions.if_none_match, *current)) {
    return fail(Errc::precondition_failed, "if-none-match");
  }
  return {};
}

Result<std::vector<StoredPart>> object_parts(View& rows, const ObjectRecord& object) {
  VB_ASSIGN(std::string value, rows.get(Table::uploads, keys::object_parts(object.id)));
  return decode_parts_of(object, value);
}

Result<void> bury(Transaction& transaction, const std::optional<ObjectRecord>& object) {
  if (!object) return {};
  transaction.kill(object->blob);
  if (object->part_count == 0) return {};
  VB_ASSIGN(auto parts, object_parts(transaction, *object));
  for (const StoredPart& part : parts) transaction.kill(part.blob);
  transaction.erase(Table::uploads, keys::object_parts(object->id));
  return {};
}

}  // namespace verbena::store
