#include "store/logic/bucket_ops.h"

#include "store/logic/object_ops.h"
#include "store/logic/versions.h"
#include "store/removal_grounds.h"

namespace verbena::store {

namespace {

Result<void> erase_documents(Transaction& transaction, const Bucket& bucket) {
  std::vector<std::string> names;
  const auto cursor = transaction.cursor(Table::meta, keys::document_prefix(bucket.id));
  for (; cursor->valid(); cursor->next()) names.emplace_back(cursor->key());
  VB_TRY(cursor->status());
  for (const std::string& name : names) transaction.erase(Table::meta, name);
  return {};
}

// Makes a removal conflict with a change of the rules that it was judged by. An engine whose keys change apart from
// their bucket refuses changes judged before one of the bucket's record, so the record is rewritten unchanged with the
// document.
void fence_rules(Transaction& transaction, const BucketRecord& record, std::string_view document) {
  if (document != rules_document && document != bounding_document) return;
  transaction.put(Table::meta, keys::bucket(record.info.name), encode(record));
}

// Evicting a version would leave a marker, and give back nothing: so a bucket is bounded or has versions (and with them
// object lock), and never both. The change that comes second is refused here, where both see the other one: requests
// look before, but two of them may look at the same time.
Result<void> check_bounded_or_versioned(const BucketInfo& info, bool bounded) {
  if (!bounded || (info.versioning == Versioning::off && !info.lock.enabled)) return {};
  return fail(Errc::invalid_bucket_state, "A bounded bucket has no versions and no object lock.");
}

bool gains_versions(const BucketInfo& before, const BucketInfo& after) {
  return (before.versioning == Versioning::off && after.versioning != Versioning::off) ||
         (!before.lock.enabled && after.lock.enabled);
}

Result<void> check_unchanged(Transaction& transaction, const Bucket& bucket, const std::string& name,
                             const std::optional<Document>& was) {
  if (!was) return {};
  VB_ASSIGN(const auto now, find_row(transaction, Table::meta, keys::document(bucket.id, name)));
  const bool same = *was == nullptr ? !now : now && *now == **was;
  if (!same) return fail(Errc::precondition_failed, "document: another one by now");
  return {};
}

}  // namespace

Change create_bucket_change(Buckets& buckets, BucketInfo info) {
  auto judge = [&buckets, info](Transaction& transaction) -> Result<void> {
    std::string key = keys::bucket(info.name);
    VB_ASSIGN(auto current, find_row(transaction, Table::meta, key));
    if (current) return fail(Errc::bucket_already_exists);
    VB_ASSIGN(const uint64_t id, transaction.next_id());
    BucketRecord record{.id = id, .info = info};
    if (record.info.created_us == 0) record.info.created_us = transaction.now_us();
    transaction.put(Table::meta, key, encode(record));
    transaction.count_from_zero(id);
    transaction.on_commit([&buckets, record] { buckets.add(record); });
    return {};
  };
  return {.judge = std::move(judge), .bucket = nullptr, .place = {}, .takes_space = true};
}

Change edit_bucket_change(std::shared_ptr<const Bucket> bucket, BucketEdit edit) {
  auto judge = [bucket, edit](Transaction& transaction) -> Result<void> {
    VB_ASSIGN(BucketRecord record, check_bucket(transaction, *bucket));
    const BucketInfo before = record.info;
    VB_TRY(edit(record.info));
    if (gains_versions(before, record.info)) {
      VB_ASSIGN(const auto bound, find_row(transaction, Table::meta, keys::document(bucket->id, bounding_document)));
      VB_TRY(check_bounded_or_versioned(record.info, bound.has_value()));
    }
    transaction.put(Table::meta, keys::bucket(bucket->name), encode(record));
    transaction.on_commit([bucket, info = record.info] { bucket->set(info); });
    return {};
  };
  return {.judge = std::move(judge), .bucket = nullptr, .place = {bucket->id}};
}

Change remove_bucket_change(Buckets& buckets, std::shared_ptr<const Bucket> bucket) {
  auto judge = [&buckets, bucket](Transaction& transaction) -> Result<void> {
    VB_TRY(check_bucket(transaction, *bucket));
    const auto objects = transaction.cursor(Table::objects, keys::object_prefix(bucket->id));
    if (objects->valid()) return fail(Errc::bucket_not_empty);
    VB_TRY(objects->status());
    VB_ASSIGN(bool versions, has_versions(transaction, bucket->id));
    if (versions) return fail(Errc::bucket_not_empty);
    VB_TRY(erase_documents(transaction, *bucket));
    transaction.erase(Table::meta, keys::bucket(bucket->name));
    // Its uploads may be millions of rows: they are removed in pieces.
    transaction.abandon(bucket->id);
    transaction.on_commit([&buckets, bucket] { buckets.remove(bucket->name); });
    return {};
  };
  return {.judge = std::move(judge), .bucket = nullptr, .place = {bucket->id}};
}

Change set_document_change(std::shared_ptr<const Bucket> bucket, std::string name, Document document,
                           std::optional<Document> was) {
  auto judge = [bucket, name, document, was](Transaction& transaction) -> Result<void> {
    VB_ASSIGN(const BucketRecord record, check_bucket(transaction, *bucket));
    VB_TRY(check_unchanged(transaction, *bucket, name, was));
    VB_TRY(check_bounded_or_versioned(record.info, name == bounding_document));
    if (!bucket->documents.has_room(name)) return fail(Errc::invalid_argument, "document: too many in this bucket");
    transaction.put(Table::meta, keys::document(bucket->id, name), *document);
    fence_rules(transaction, record, name);
    transaction.on_commit([bucket, name, document] { bucket->documents.set(name, document); });
    return {};
  };
  return {.judge = std::move(judge), .bucket = nullptr, .place = {bucket->id}, .takes_space = true};
}

Change remove_document_change(std::shared_ptr<const Bucket> bucket, std::string name, std::optional<Document> was) {
  auto judge = [bucket, name, was](Transaction& transaction) -> Result<void> {
    VB_ASSIGN(const BucketRecord record, check_bucket(transaction, *bucket));
    VB_TRY(check_unchanged(transaction, *bucket, name, was));
    transaction.erase(Table::meta, keys::document(bucket->id, name));
    fence_rules(transaction, record, name);
    transaction.on_commit([bucket, name] { bucket->documents.remove(name); });
    return {};
  };
  return {.judge = std::move(judge), .bucket = nullptr, .place = {bucket->id}};
}

}  // namespace verbena::store
