#include "store/local/lookup.h"

#include "store/local/versions.h"

namespace verbena::store::local {
namespace {

Result<std::optional<std::string>> get(Engine& engine, const Bucket& bucket, Family family, const std::string& key,
                                       Tier tier) {
  auto value = engine.index->get(family, key, tier, view_of(bucket));
  if (!value && value.error() == Errc::not_found) return std::nullopt;
  if (!value) return std::unexpected(value.error());
  return std::move(*value);
}

Result<std::optional<ObjectRecord>> get_record(Engine& engine, const Bucket& bucket, Family family,
                                               const std::string& key, Tier tier) {
  VB_ASSIGN(auto value, get(engine, bucket, family, key, tier));
  if (!value) return std::nullopt;
  return decode_object(*value);
}

// Among the versions that are not current.
Result<std::optional<ObjectRecord>> get_older(Engine& engine, const Bucket& bucket, VersionName name,
                                              std::optional<uint64_t> id, Tier tier) {
  if (!id) {
    VB_ASSIGN(auto value, get(engine, bucket, Family::uploads, keys::null_version(bucket.id, name.key), tier));
    if (!value) return std::nullopt;
    id = keys::parse_number(*value);
    if (!id) return fail(Errc::corrupt_object, "index: null version");
  }
  return get_record(engine, bucket, Family::versions, keys::version(bucket.id, name.key, *id), tier);
}

constexpr int attempts_max = 100;  // moves that may come between two looks

}  // namespace

Result<ObjectRecord> read_record(Engine& engine, const Bucket& bucket, VersionName name, Tier tier) {
  const std::string key = keys::object(bucket.id, name.key);
  if (name.version_id.empty()) {
    VB_ASSIGN(auto current, get_record(engine, bucket, Family::objects, key, tier));
    if (!current) return fail(Errc::no_such_key);
    return std::move(*current);
  }
  const bool null = name.version_id == null_version_id;
  const auto id = null ? std::nullopt : parse_version_id(name.version_id);
  if (!null && !id) return fail(Errc::invalid_version);
  const auto is_it = [&](const auto& record) {
    return record && (null ? record->is_null() : record->info.version_id == name.version_id);
  };
  for (int i = 0; i < attempts_max; ++i) {
    VB_ASSIGN(auto current, get_record(engine, bucket, Family::objects, key, tier));
    if (is_it(current)) return std::move(*current);
    VB_ASSIGN(auto older, get_older(engine, bucket, name, id, tier));
    if (is_it(older)) return std::move(*older);
    // Not there, unless it became current between the two looks.
    VB_ASSIGN(auto again, get_record(engine, bucket, Family::objects, key, tier));
    if (current.has_value() == again.has_value() && (!again || again->id == current->id)) break;
  }
  return fail(Errc::no_such_version);
}

Result<ObjectRecord> read_newest(Engine& engine, const Bucket& bucket, VersionName name) {
  auto record = read_record(engine, bucket, name, Tier::disk);
  if (record || !(record.error() == Errc::no_such_key)) return record;
  Cursor cursor =
      engine.index->cursor(Family::versions, keys::version_prefix(bucket.id, name.key), {}, view_of(bucket));
  if (cursor.valid()) return decode_object(cursor.value());
  VB_TRY(cursor.status());
  return record;
}

}  // namespace verbena::store::local
