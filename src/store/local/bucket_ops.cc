#include "store/local/bucket_ops.h"

#include "store/local/object_ops.h"
#include "store/local/versions.h"

namespace verbena::store::local {

namespace {

Result<void> erase_documents(Transaction& transaction, const Bucket& bucket) {
  std::vector<std::string> names;
  Cursor cursor = transaction.batch().cursor(Family::meta, keys::document_prefix(bucket.id));
  for (; cursor.valid(); cursor.next()) names.emplace_back(cursor.key());
  VB_TRY(cursor.status());
  for (const std::string& name : names) transaction.batch().erase(Family::meta, name);
  return {};
}

}  // namespace

Mutation create_bucket_mutation(Engine& engine, BucketInfo info) {
  auto apply = [&engine, info](Transaction& transaction) -> Result<void> {
    std::string key = keys::bucket(info.name);
    auto current = transaction.batch().get(Family::meta, key);
    if (current) return fail(Errc::bucket_already_exists);
    if (!(current.error() == Errc::not_found)) return std::unexpected(current.error());
    BucketRecord record{.id = engine.next_id(), .info = info};
    if (record.info.created_us == 0) record.info.created_us = transaction.now_us();
    transaction.batch().put(Family::meta, key, encode(record));
    transaction.on_commit([&engine, record] { engine.buckets.add(record); });
    return {};
  };
  return {.apply = std::move(apply), .runs = {}, .bucket = nullptr, .takes_space = true};
}

Mutation change_bucket_mutation(std::shared_ptr<const Bucket> bucket, BucketChange change) {
  auto apply = [bucket, change](Transaction& transaction) -> Result<void> {
    VB_ASSIGN(BucketRecord record, check_bucket(transaction, *bucket));
    VB_TRY(change(record.info));
    transaction.batch().put(Family::meta, keys::bucket(bucket->name), encode(record));
    transaction.on_commit([bucket, info = record.info] { bucket->set(info); });
    return {};
  };
  return {.apply = std::move(apply), .runs = {}, .bucket = nullptr, .takes_space = false};
}

Mutation remove_bucket_mutation(Engine& engine, std::shared_ptr<const Bucket> bucket) {
  auto apply = [&engine, bucket](Transaction& transaction) -> Result<void> {
    VB_TRY(check_bucket(transaction, *bucket));
    Cursor objects = transaction.batch().cursor(Family::objects, keys::object_prefix(bucket->id));
    if (objects.valid()) return fail(Errc::bucket_not_empty);
    VB_TRY(objects.status());
    VB_ASSIGN(bool versions, has_versions(transaction, bucket->id));
    if (versions) return fail(Errc::bucket_not_empty);
    VB_TRY(erase_documents(transaction, *bucket));
    transaction.batch().erase(Family::meta, keys::bucket(bucket->name));
    // Its uploads may be millions of records. Nothing finds them without the bucket, so they go piece by piece, beside
    // other commits.
    transaction.batch().put(Family::meta, keys::removed_bucket(bucket->id), "");
    transaction.on_commit([&engine, bucket] {
      engine.buckets.remove(bucket->name);
      engine.garbage->add_removed_bucket(bucket->id);
    });
    return {};
  };
  return {.apply = std::move(apply), .runs = {}, .bucket = nullptr, .takes_space = false};
}

Mutation set_document_mutation(std::shared_ptr<const Bucket> bucket, std::string name, Document document) {
  auto apply = [bucket, name, document](Transaction& transaction) -> Result<void> {
    VB_TRY(check_bucket(transaction, *bucket));
    if (!bucket->documents.has_room(name)) return fail(Errc::invalid_argument, "document: too many in this bucket");
    transaction.batch().put(Family::meta, keys::document(bucket->id, name), *document);
    transaction.on_commit([bucket, name, document] { bucket->documents.set(name, document); });
    return {};
  };
  return {.apply = std::move(apply), .runs = {}, .bucket = nullptr, .takes_space = true};
}

Mutation remove_document_mutation(std::shared_ptr<const Bucket> bucket, std::string name) {
  auto apply = [bucket, name](Transaction& transaction) -> Result<void> {
    VB_TRY(check_bucket(transaction, *bucket));
    transaction.batch().erase(Family::meta, keys::document(bucket->id, name));
    transaction.on_commit([bucket, name] { bucket->documents.remove(name); });
    return {};
  };
  return {.apply = std::move(apply), .runs = {}, .bucket = nullptr, .takes_space = false};
}

}  // namespace verbena::store::local
