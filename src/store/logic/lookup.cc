#include "store/logic/lookup.h"

#include "store/logic/ends.h"
#include "store/logic/versions.h"

namespace verbena::store {
namespace {

Result<std::optional<ObjectRecord>> get_record(View& rows, Table table, const std::string& key) {
  VB_ASSIGN(auto value, find_row(rows, table, key));
  if (!value) return std::nullopt;
  return decode_object(*value);
}

// Among the versions that are not current.
Result<std::optional<ObjectRecord>> get_older(View& rows, const Bucket& bucket, VersionName name,
                                              std::optional<uint64_t> id) {
  if (!id) {
    VB_ASSIGN(auto value, find_row(rows, Table::uploads, keys::null_version(bucket.id, name.key)));
    if (!value) return std::nullopt;
    id = keys::parse_number(*value);
    if (!id) return fail(Errc::corrupt_object, "index: null version");
  }
  return get_record(rows, Table::versions, keys::version(bucket.id, name.key, *id));
}

}  // namespace

Result<ObjectRecord> read_record(View& rows, const Bucket& bucket, VersionName name) {
  const std::string key = keys::object(bucket.id, name.key);
  if (name.version_id.empty()) {
    VB_ASSIGN(auto current, get_record(rows, Table::objects, key));
    if (!current || bucket.is_gone(current->info)) return fail(Errc::no_such_key);
    return std::move(*current);
  }
  const bool null = name.version_id == null_version_id;
  const auto id = null ? std::nullopt : parse_version_id(name.version_id);
  if (!null && !id) return fail(Errc::invalid_version);
  const auto is_it = [&](const auto& record) {
    return record && (null ? record->is_null() : record->info.version_id == name.version_id);
  };
  // As of one moment: a version may move from one table to the other.
  const auto moment = rows.moment();
  auto current = get_record(*moment, Table::objects, key);
  if (!current) {
    if (current.error() == Errc::would_block) (void)get_older(*moment, bucket, name, id);  // request both rows at once
    return std::unexpected(current.error());
  }
  if (is_it(*current)) {
    const Versioning now = bucket.versioning.load(std::memory_order_acquire);
    if (is_gone_by_name(bucket, (*current)->info, now)) return fail(Errc::no_such_version);
    return std::move(**current);
  }
  VB_ASSIGN(auto older, get_older(*moment, bucket, name, id));
  if (is_it(older)) return std::move(*older);
  return fail(Errc::no_such_version);
}

Result<ObjectRecord> read_newest(View& rows, const Bucket& bucket, VersionName name) {
  if (!name.version_id.empty()) return read_record(rows, bucket, name);
  const auto moment = rows.moment();  // as above
  auto record = read_record(*moment, bucket, name);
  if (record || !(record.error() == Errc::no_such_key)) return record;
  const auto cursor = moment->cursor(Table::versions, keys::version_prefix(bucket.id, name.key));
  if (!cursor->valid()) {
    VB_TRY(cursor->status());
    return record;
  }
  VB_ASSIGN(ObjectRecord newest, decode_object(cursor->value()));
  if (!newest.info.delete_marker) return record;  // the current object is above it, and its end has come
  return newest;
}

}  // namespace verbena::store
