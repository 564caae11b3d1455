#include "store/logic/grounds.h"

#include "store/key_pins.h"

namespace verbena::store {
namespace {

std::unexpected<Error> no_longer(const char* what) { return fail(Errc::precondition_failed, what); }

// The id in the key of the cursor's row; nullopt: no row.
Result<std::optional<uint64_t>> id_at(const Cursor& cursor) {
  if (!cursor.valid()) {
    VB_TRY(cursor.status());
    return std::nullopt;
  }
  const auto parsed = keys::parse_version(cursor.key());
  if (!parsed) return fail(Errc::corrupt_object, "index: version key");
  return parsed->second;
}

// Checks that the next newer version is the recorded one, with the recorded time: this version has been noncurrent
// since then. Finds it from the successor, however many versions the key has.
Result<void> check_successor(Transaction& transaction, uint64_t bucket, std::string_view key, uint64_t id,
                             const RemovalGrounds& grounds) {
  VB_ASSIGN(const auto successor, find_version(transaction, bucket, key, grounds.successor_id));
  if (!successor || successor->record.info.modified_us != grounds.successor_us) return no_longer("successor");
  const auto cursor = transaction.cursor(Table::versions, keys::version_prefix(bucket, key));
  if (!successor->current) {
    cursor->seek(keys::version(bucket, key, successor->record.id));
    VB_ASSIGN(const auto at, id_at(*cursor));
    if (at != successor->record.id) return fail(Errc::corrupt_object, "index: successor");
    cursor->next();
  }
  VB_ASSIGN(const auto next, id_at(*cursor));
  if (next != id) return no_longer("successor: another one is between");
  return {};
}

// Checks that at least this many noncurrent versions are newer than this one.
Result<void> check_newer(Transaction& transaction, uint64_t bucket, std::string_view key, uint64_t id,
                         uint32_t newer_min) {
  if (newer_min == 0) return {};
  VB_ASSIGN(const auto head, find_row(transaction, Table::objects, keys::object(bucket, key)));
  const auto cursor = transaction.cursor(Table::versions, keys::version_prefix(bucket, key));
  bool latest = !head;  // a delete marker, which is not noncurrent
  for (uint32_t newer = 0; newer < newer_min;) {
    VB_ASSIGN(const auto at, id_at(*cursor));
    if (!at || *at == id) return no_longer("newer noncurrent versions");
    if (!std::exchange(latest, false)) ++newer;
    cursor->next();
  }
  return {};
}

// Checks that the delete marker is the key's only version.
Result<void> check_alone(Transaction& transaction, uint64_t bucket, std::string_view key, const Version& version) {
  if (!version.record.info.delete_marker) return no_longer("no delete marker");
  VB_ASSIGN(const auto head, find_row(transaction, Table::objects, keys::object(bucket, key)));
  if (head) return no_longer("a current object");
  const auto cursor = transaction.cursor(Table::versions, keys::version_prefix(bucket, key));
  VB_ASSIGN(const auto first, id_at(*cursor));
  if (first != version.record.id) return no_longer("a newer version");
  cursor->next();
  VB_ASSIGN(const auto second, id_at(*cursor));
  if (second) return no_longer("the delete marker hides a version");
  return {};
}

// Checks the bucket, and that the document is as it was read.
Result<void> check_document(Transaction& transaction, const BucketRecord& bucket, std::string_view name,
                            const RemovalGrounds& grounds) {
  if (bucket.info.created_us != grounds.bucket_created_us) return no_longer("another bucket of that name");
  if (bucket.info.versioning != grounds.versioning) return no_longer("versioning");
  VB_ASSIGN(const auto document, find_row(transaction, Table::meta, keys::document(bucket.id, name)));
  if (!document || grounds.rules == nullptr || *document != *grounds.rules) return no_longer("rules");
  return {};
}

}  // namespace

Result<void> check_rules(Transaction& transaction, const BucketRecord& bucket, const RemovalGrounds& grounds) {
  return check_document(transaction, bucket, rules_document, grounds);
}

// Of a bucket without versions alone: a key without an object is no reason to make a marker.
Result<void> check_bound(Transaction& transaction, const BucketRecord& bucket, const RemovalGrounds& grounds) {
  return check_document(transaction, bucket, bounding_document, grounds);
}

Result<void> check_unpinned(const BucketRecord& bucket, std::string_view key) {
  if (KeyPins::get().is_pinned(bucket.info.name, key)) return no_longer("a lease pins it");
  return {};
}

Result<void> check_grounds(Transaction& transaction, const BucketRecord& bucket, std::string_view key,
                           const std::optional<Version>& version, const RemovalGrounds& grounds) {
  VB_TRY(check_rules(transaction, bucket, grounds));
  if (!version) return no_longer("the version has gone");
  const ObjectRecord& record = version->record;
  if (record.info.tags != grounds.tags) return no_longer("tags");
  switch (grounds.of) {
    case RemovalGrounds::Of::current:
      if (!version->current) return no_longer("no current object");
      return {};
    case RemovalGrounds::Of::noncurrent:
      if (version->current) return no_longer("current again");
      VB_TRY(check_successor(transaction, bucket.id, key, record.id, grounds));
      return check_newer(transaction, bucket.id, key, record.id, grounds.noncurrent_newer_min);
    case RemovalGrounds::Of::lone_marker:
      return check_alone(transaction, bucket.id, key, *version);
    case RemovalGrounds::Of::upload:
    case RemovalGrounds::Of::ended:
    case RemovalGrounds::Of::evicted:
      break;
  }
  return fail(Errc::internal, "grounds: not of a rule about versions");
}

}  // namespace verbena::store
