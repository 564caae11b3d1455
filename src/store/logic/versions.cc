#include "store/logic/versions.h"

#include "base/bytes.h"
#include "store/logic/ends.h"
#include "store/logic/usage.h"

namespace verbena::store {
namespace {

constexpr std::string_view digits = "0123456789abcdefghijklmnopqrstuv";  // base 32
constexpr size_t random_bytes = 12;
constexpr size_t raw_size = 8 + random_bytes;
constexpr size_t text_size = raw_size * 8 / 5;
static_assert(text_size == 32);

std::string to_base32(std::string_view raw) {
  std::string text;
  uint32_t bits = 0;
  int have = 0;
  for (char c : raw) {
    bits = bits << 8 | static_cast<uint8_t>(c);
    for (have += 8; have >= 5; have -= 5) text.push_back(digits[(bits >> (have - 5)) & 31]);
  }
  return text;
}

Result<std::optional<ObjectRecord>> get_record(Transaction& transaction, Table table, const std::string& key) {
  VB_ASSIGN(auto value, find_row(transaction, table, key));
  if (!value) return std::nullopt;
  return decode_object(*value);
}

// The id of the null version in `versions`.
Result<std::optional<uint64_t>> null_version(Transaction& transaction, uint64_t bucket, std::string_view key) {
  VB_ASSIGN(auto value, find_row(transaction, Table::uploads, keys::null_version(bucket, key)));
  if (!value) return std::nullopt;
  auto id = keys::parse_number(*value);
  if (!id) return fail(Errc::corrupt_object, "index: null version");
  return id;
}

// The newest record in `versions` with an id of at most `id_max`.
Result<std::optional<ObjectRecord>> newest_below(Transaction& transaction, uint64_t bucket, std::string_view key,
                                                 uint64_t id_max) {
  const auto cursor = transaction.cursor(Table::versions, keys::version_prefix(bucket, key));
  // Seek past the newer ones, which may be many that were just erased.
  if (id_max != UINT64_MAX) cursor->seek(keys::version(bucket, key, id_max));
  if (cursor->valid()) return decode_object(cursor->value());
  VB_TRY(cursor->status());
  return std::nullopt;
}

void erase_from_versions(Transaction& transaction, uint64_t bucket, std::string_view key, const ObjectRecord& record) {
  transaction.erase(Table::versions, keys::version(bucket, key, record.id));
  if (record.is_null()) transaction.erase(Table::uploads, keys::null_version(bucket, key));
}

Result<void> remove_null_version(Transaction& transaction, const Bucket& of, std::string_view key) {
  const uint64_t bucket = of.id;
  VB_ASSIGN(auto id, null_version(transaction, bucket, key));
  if (!id) return {};
  VB_ASSIGN(auto record, get_record(transaction, Table::versions, keys::version(bucket, key, *id)));
  if (!record) return fail(Errc::corrupt_object, "index: null version is missing");
  VB_TRY(bury(transaction, record));
  erase_from_versions(transaction, bucket, key, *record);
  transaction.count(-as_version(*record));
  ObjectInfo gone;
  gone.version_id = null_version_id;
  gone.modified_us = transaction.now_us();
  transaction.on_commit([feed = of.feed, key = std::string(key), gone = std::move(gone)] {
    feed->tell(KeyEvent::removed, key, gone, /*of_versions=*/true);
  });
  return {};
}

}  // namespace

std::string make_version_id(uint64_t id) {
  std::string raw = keys::number(id);
  std::byte random[random_bytes];
  fill_random(random);
  raw.append(as_text(random));
  return to_base32(raw);
}

std::optional<uint64_t> parse_version_id(std::string_view version_id) {
  if (version_id.size() != text_size) return std::nullopt;
  uint64_t id = 0;
  for (size_t i = 0; i < text_size; ++i) {
    size_t digit = digits.find(version_id[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    // 64 bits are twelve digits and four bits of the next.
    if (i < 12) id = id << 5 | digit;
    if (i == 12) id = id << 4 | digit >> 1;
  }
  return id;
}

Result<std::optional<Version>> find_version(Transaction& transaction, uint64_t bucket, std::string_view key,
                                            std::string_view version_id) {
  const bool null = version_id == null_version_id;
  auto id = null ? std::nullopt : parse_version_id(version_id);
  if (!null && !id) return fail(Errc::invalid_version);
  VB_ASSIGN(auto current, get_record(transaction, Table::objects, keys::object(bucket, key)));
  const auto is_it = [&](const ObjectRecord& r) { return null ? r.is_null() : r.info.version_id == version_id; };
  if (current && is_it(*current)) return Version{std::move(*current), true};
  if (null) {
    VB_ASSIGN(id, null_version(transaction, bucket, key));
    if (!id) return std::nullopt;
  }
  VB_ASSIGN(auto record, get_record(transaction, Table::versions, keys::version(bucket, key, *id)));
  if (!record || !is_it(*record)) return std::nullopt;
  return Version{std::move(*record), false};
}

Result<std::optional<Version>> find_newest(Transaction& transaction, uint64_t bucket, std::string_view key) {
  VB_ASSIGN(auto current, get_record(transaction, Table::objects, keys::object(bucket, key)));
  if (current) return Version{std::move(*current), true};
  VB_ASSIGN(auto newest, newest_below(transaction, bucket, key, UINT64_MAX));
  if (!newest) return std::nullopt;
  return Version{std::move(*newest), false};
}

void put_version(Transaction& transaction, uint64_t bucket, std::string_view key, const Version& version) {
  const ObjectRecord& record = version.record;
  if (version.current) {
    transaction.put(Table::objects, keys::object(bucket, key), encode(record));
    return;
  }
  transaction.put(Table::versions, keys::version(bucket, key, record.id), encode(record));
  if (!record.is_null()) return;
  transaction.put(Table::uploads, keys::null_version(bucket, key), keys::number(record.id));
}

Result<bool> has_older_null_version(Transaction& transaction, uint64_t bucket, std::string_view key) {
  VB_ASSIGN(const auto id, null_version(transaction, bucket, key));
  return id.has_value();
}

Result<void> step_aside(Transaction& transaction, const Bucket& of, const BucketRecord& bucket, std::string_view key,
                        const std::optional<ObjectRecord>& current) {
  const Versioning versioning = bucket.info.versioning;
  if (current) transaction.count(-as_current(*current));
  if (versioning == Versioning::off) return bury(transaction, current);
  if (versioning == Versioning::suspended) {
    if (current && current->is_null()) return bury(transaction, current);
    VB_TRY(remove_null_version(transaction, of, key));
  }
  if (!current) return {};
  Version older{*current, /*current=*/false};
  drop_end(older.record.info);  // only current objects end
  put_version(transaction, bucket.id, key, older);
  transaction.count(as_version(*current));
  return {};
}

Result<CurrentObject> remove_version(Transaction& transaction, uint64_t bucket, std::string_view key,
                                     const Version& version) {
  const ObjectRecord& record = version.record;
  VB_TRY(bury(transaction, record));
  transaction.count(version.current ? -as_current(record) : -as_version(record));
  bool newest = version.current;
  if (version.current) {
    transaction.erase(Table::objects, keys::object(bucket, key));
    move_end(transaction, bucket, key, &record.info, nullptr);
  } else {
    VB_ASSIGN(auto first, find_newest(transaction, bucket, key));
    newest = first && !first->current && first->record.id == record.id;
    erase_from_versions(transaction, bucket, key, record);
  }
  CurrentObject current{.changed = version.current};
  if (!newest) return current;
  VB_ASSIGN(auto next, newest_below(transaction, bucket, key, record.id));
  if (!next || next->info.delete_marker) return current;
  current = {.changed = true, .now = next->info};
  erase_from_versions(transaction, bucket, key, *next);
  transaction.count(as_current(*next) - as_version(*next));
  put_version(transaction, bucket, key, {std::move(*next), /*current=*/true});
  return current;
}

Result<void> check_lock(const ObjectLock& lock, int64_t now_us, bool bypass_governance) {
  if (lock.legal_hold) return fail(Errc::access_denied, "Access Denied because object protected by object lock.");
  const bool retained = lock.mode != LockMode::none && now_us < lock.retain_until_us;
  if (retained && !(bypass_governance && lock.mode == LockMode::governance)) {
    return fail(Errc::access_denied, "Access Denied because object protected by object lock.");
  }
  return {};
}

void apply_default_retention(ObjectLock& lock, const BucketLock& bucket, int64_t now_us) {
  if (!bucket.enabled || bucket.mode == LockMode::none || lock.mode != LockMode::none) return;
  constexpr int64_t day_us = 86'400'000'000;
  lock.mode = bucket.mode;
  lock.retain_until_us = now_us + static_cast<int64_t>(bucket.period) * (bucket.years ? 365 : 1) * day_us;
}

void name_version(ObjectInfo& info, Versioning versioning) {
  if (versioning != Versioning::off && info.version_id.empty()) info.version_id = null_version_id;
}

Result<bool> has_versions(Transaction& transaction, uint64_t bucket) {
  const auto cursor = transaction.cursor(Table::versions, keys::version_bucket(bucket));
  if (cursor->valid()) return true;
  VB_TRY(cursor->status());
  return false;
}

}  // namespace verbena::store
