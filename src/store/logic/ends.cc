#include "store/logic/ends.h"

#include "store/logic/keys.h"
#include "store/renewals.h"

namespace verbena::store {

void move_end(Transaction& transaction, uint64_t bucket, std::string_view key, const ObjectInfo* before,
              const ObjectInfo* after) {
  const int64_t from_us = before == nullptr ? 0 : end_us_of(*before);
  const int64_t to_us = after == nullptr ? 0 : end_us_of(*after);
  if (from_us == to_us) return;
  if (from_us != 0) transaction.erase(Table::uploads, keys::end(from_us, bucket, key));
  if (to_us != 0) transaction.put(Table::uploads, keys::end(to_us, bucket, key), "");
}

Result<bool> renew_end(const Bucket& bucket, Version& version, std::string_view touch, int64_t now_us) {
  if (!bucket.takes_ends()) return fail(Errc::not_implemented, "This store does not keep ends of objects.");
  if (!version.current) return fail(Errc::invalid_request, "Only the current version of a key has an end.");
  ObjectInfo& info = version.record.info;
  const bool by_read = touch == touch_by_read;
  if (!by_read && touch != touch_again) {
    if (!parse_ttl(touch)) return fail(Errc::invalid_argument, "x-verbena-ttl");
    drop_end(info);
    info.headers.emplace_back(ttl_header, touch);
  }
  const int64_t ttl_us = ttl_s_of(info) * 1'000'000;
  if (ttl_us == 0 && by_read) return false;
  if (ttl_us == 0) return fail(Errc::invalid_request, "The object has no end that could be renewed.");
  const int64_t from_us = bucket.ttl_from(now_us);
  if (by_read && !is_renewal_due(info, from_us)) return false;
  set_end(info, from_us);
  return true;
}

Result<std::vector<EndedKey>> read_ended(View& rows, int64_t now_us, size_t max, const std::string& after) {
  std::vector<EndedKey> ended;
  const std::string from = after.empty() ? after : after + '\0';
  const auto cursor = rows.cursor(Table::uploads, keys::end_prefix(), from);
  for (; cursor->valid() && ended.size() < max; cursor->next()) {
    auto row = keys::parse_end(cursor->key());
    if (!row) return fail(Errc::corrupt_object, "store: end of an object");
    if (row->end_us > now_us) return ended;
    ended.push_back({.bucket = {}, .key = std::move(row->key), .bucket_id = row->bucket, .end_us = row->end_us});
  }
  VB_TRY(cursor->status());
  return ended;
}

std::string end_row(const EndedKey& ended) { return keys::end(ended.end_us, ended.bucket_id, ended.key); }

Change forget_end_change(std::shared_ptr<const Bucket> bucket, EndedKey ended) {
  const auto key = std::make_shared<const std::string>(ended.key);
  auto judge = [bucket, key, ended = std::move(ended)](Transaction& transaction) -> Result<void> {
    if (bucket != nullptr) {
      VB_ASSIGN(const auto current, find_object(transaction, *bucket, *key));
      if (current && end_us_of(current->info) == ended.end_us) return {};
    }
    // Nothing is written where the row went since it was read.
    const std::string row = end_row(ended);
    const auto there = transaction.get(Table::uploads, row);
    if (!there && there.error() == Errc::not_found) return {};
    if (!there) return std::unexpected(there.error());
    transaction.erase(Table::uploads, row);
    return {};
  };
  return {.judge = std::move(judge), .bucket = bucket, .place = {bucket == nullptr ? 0 : bucket->id, *key}};
}

}  // namespace verbena::store
