#include "store/local/object_ops.h"

#include "store/local/versions.h"
#include "store/local/write_behind.h"

namespace verbena::store::local {
namespace {

// What a PUT's mutation needs; shared because std::function copies what it holds.
struct Put {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const Bucket> bucket;
  std::string key;
  CommitConditions conditions;
  ObjectInfo info;
  WrittenBlob blob;
};

// The new current object of a key: what was current steps aside.
Result<ObjectRecord> replace_current(Transaction& transaction, Engine& engine, const BucketRecord& bucket,
                                     std::string_view key, const std::optional<ObjectRecord>& current, ObjectInfo info,
                                     const WrittenBlob& blob, int64_t at_us) {
  VB_TRY(step_aside(transaction, bucket, key, current));
  VB_ASSIGN(ObjectRecord record, new_record(engine, bucket, std::move(info), at_us));
  record.blob = blob.ref;
  add_blob(transaction, blob);
  transaction.batch().put(Family::objects, keys::object(bucket.id, key), encode(record));
  return record;
}

Result<void> apply_put(Transaction& transaction, Put& put) {
  VB_ASSIGN(BucketRecord bucket, check_bucket(transaction, *put.bucket));
  VB_ASSIGN(auto current, find_object(transaction, *put.bucket, put.key));
  VB_TRY(check_conditions(current, put.conditions));
  VB_ASSIGN(ObjectRecord record, replace_current(transaction, *put.engine, bucket, put.key, current, put.info, put.blob,
                                                 transaction.now_us()));
  put.info = std::move(record.info);
  name_version(put.info, bucket.info.versioning);
  return {};
}

class StoreObjectWriter final : public ObjectWriter {
 public:
  StoreObjectWriter(std::shared_ptr<Engine> engine, std::shared_ptr<const Bucket> bucket, std::string key,
                    std::optional<uint64_t> size_hint)
      : engine_(std::move(engine)), bucket_(std::move(bucket)), key_(std::move(key)), size_hint_(size_hint) {}

  Task<Result<void>> append(memory::Chunk chunk) override {
    if (committed_) co_return fail(Errc::invalid_argument, "writer: already committed");
    // What comes in one piece may never need a place on disk. The first of several is not kept: its memory is granted,
    // and the next might wait for just that.
    const size_t whole_max = size_hint_ ? WriteBehind::object_size_max : 64 * KiB;
    const bool all = chunk.bytes.size() == size_hint_.value_or(chunk.bytes.size());
    if (!bytes_ && !whole_ && all && chunk.bytes.size() <= whole_max && WriteBehind::suits(*bucket_)) {
      whole_ = std::move(chunk);
      co_return Result<void>{};
    }
    VB_CO_TRY(co_await write_whole());
    co_return co_await bytes_->append(std::move(chunk));
  }

  Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions conditions) override {
    if (std::exchange(committed_, true)) co_return fail(Errc::invalid_argument, "writer: already committed");
    const uint64_t size = whole_ ? whole_->bytes.size() : bytes_ ? bytes_->size() : 0;
    if (stored_size(info) != size) co_return fail(Errc::incomplete_body, "writer: size is not what was appended");
    if (!bytes_ && !conditions.if_match && !conditions.if_none_match) {
      if (!whole_) whole_.emplace();
      if (auto stored = engine_->behind->put(bucket_, key_, info, *whole_)) co_return std::move(*stored);
    }
    VB_CO_TRY(co_await write_whole());
    auto bytes = std::exchange(bytes_, nullptr);
    info.parts.clear();
    auto put = std::make_shared<Put>(Put{engine_, bucket_, key_, std::move(conditions), std::move(info), {}});
    VB_CO_ASSIGN(put->blob, co_await bytes->finish());
    Mutation mutation{.apply = [put](Transaction& transaction) { return apply_put(transaction, *put); },
                      .runs = std::move(put->blob.runs),
                      .bucket = bucket_,
                      .takes_space = true};
    if (WriteBehind::holds_any(*bucket_)) {
      if (auto settled = co_await engine_->behind->settle(bucket_, key_); !settled) {
        engine_->garbage->reclaim(std::move(mutation.runs));
        co_return std::unexpected(settled.error());
      }
    }
    VB_CO_TRY(co_await engine_->committer->submit(std::move(mutation)));
    co_return std::move(put->info);
  }

 private:
  // From here on through a BlobWriter.
  Task<Result<void>> write_whole() {
    if (!bytes_) bytes_ = std::make_shared<BlobWriter>(engine_, volume_kind(*bucket_), size_hint_);
    if (!whole_) co_return Result<void>{};
    memory::Chunk whole = std::move(*whole_);
    whole_.reset();
    if (whole.bytes.empty()) co_return Result<void>{};
    co_return co_await bytes_->append(std::move(whole));
  }

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const Bucket> bucket_;
  std::string key_;
  const std::optional<uint64_t> size_hint_;
  std::optional<memory::Chunk> whole_;  // all that came so far, in one piece
  std::shared_ptr<BlobWriter> bytes_;
  bool committed_ = false;
};

bool matches(const std::string& wanted, const ObjectRecord& object) {
  return wanted == "*" || wanted == object.info.etag;
}

}  // namespace

VolumeKind volume_kind(const Bucket& bucket) {
  bool memory = bucket.durability.load(std::memory_order_acquire) == Durability::memory;
  return memory ? VolumeKind::written_behind : VolumeKind::durable;
}

Result<ObjectRecord> new_record(Engine& engine, const BucketRecord& bucket, ObjectInfo info, int64_t now_us) {
  if (info.lock != ObjectLock{} && !bucket.info.lock.enabled) {
    return fail(Errc::invalid_request, "Bucket is missing Object Lock Configuration.");
  }
  ObjectRecord record{.id = engine.next_id(), .info = std::move(info), .blob = {}, .part_count = 0};
  record.info.modified_us = now_us;
  record.info.delete_marker = false;
  record.info.version_id.clear();
  if (bucket.info.versioning == Versioning::enabled) record.info.version_id = make_version_id(record.id);
  apply_default_retention(record.info.lock, bucket.info.lock, now_us);
  return record;
}

Result<BucketRecord> check_bucket(Transaction& transaction, const Bucket& bucket) {
  auto value = transaction.batch().get(Family::meta, keys::bucket(bucket.name));
  if (!value && value.error() == Errc::not_found) return fail(Errc::no_such_bucket);
  if (!value) return std::unexpected(value.error());
  VB_ASSIGN(BucketRecord record, decode_bucket(*value));
  if (record.id != bucket.id) return fail(Errc::no_such_bucket);
  return record;
}

Result<std::optional<ObjectRecord>> find_object(Transaction& transaction, const Bucket& bucket, std::string_view key) {
  auto value = transaction.batch().get(Family::objects, keys::object(bucket.id, key));
  if (!value && value.error() == Errc::not_found) return std::nullopt;
  if (!value) return std::unexpected(value.error());
  return decode_object(*value);
}

Result<void> check_conditions(const std::optional<ObjectRecord>& current, const CommitConditions& conditions) {
  if (conditions.if_match) {
    if (!current) return fail(Errc::no_such_key, "if-match: no object");
    if (!matches(*conditions.if_match, *current)) return fail(Errc::precondition_failed, "if-match");
  }
  if (conditions.if_none_match && current && matches(*conditions.if_none_match, *current)) {
    return fail(Errc::precondition_failed, "if-none-match");
  }
  return {};
}

Result<std::vector<StoredPart>> object_parts(Transaction& transaction, const ObjectRecord& object) {
  VB_ASSIGN(std::string value, transaction.batch().get(Family::uploads, keys::object_parts(object.id)));
  return decode_parts(value);
}

Result<void> bury(Transaction& transaction, const std::optional<ObjectRecord>& object) {
  if (!object) return {};
  transaction.kill(object->blob);
  if (object->part_count == 0) return {};
  VB_ASSIGN(auto parts, object_parts(transaction, *object));
  for (const StoredPart& part : parts) transaction.kill(part.blob);
  transaction.batch().erase(Family::uploads, keys::object_parts(object->id));
  return {};
}

Result<void> apply_acknowledged(Transaction& transaction, Engine& engine, const Acknowledged& object,
                                const WrittenBlob& blob) {
  VB_ASSIGN(BucketRecord bucket, check_bucket(transaction, *object.bucket));
  VB_ASSIGN(auto current, find_object(transaction, *object.bucket, object.key));
  VB_TRY(replace_current(transaction, engine, bucket, object.key, current, object.info, blob, object.info.modified_us));
  return {};
}

std::unique_ptr<ObjectWriter> make_object_writer(std::shared_ptr<Engine> engine, std::shared_ptr<const Bucket> bucket,
                                                 std::string key, std::optional<uint64_t> size_hint) {
  return std::make_unique<StoreObjectWriter>(std::move(engine), std::move(bucket), std::move(key), size_hint);
}

}  // namespace verbena::store::local
