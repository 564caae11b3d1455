#include "store/logic/object_writer.h"

#include <algorithm>
#include <utility>

#include "store/logic/events.h"
#include "store/logic/object_ops.h"
#include "store/logic/versions.h"

namespace verbena::store {
namespace {

// Inputs of a PUT's judge; shared because std::function copies its captures.
struct Put {
  std::shared_ptr<const Bucket> bucket;
  std::string key;
  CommitConditions conditions;
  ObjectInfo info;
  BlobRef blob{};
  ObjectInfo stored{};  // the answer
};

Result<void> judge_put(Transaction& transaction, Put& put) {
  VB_TRY(put.conditions.wanted.check());
  VB_ASSIGN(BucketRecord bucket, check_bucket(transaction, *put.bucket));
  VB_ASSIGN(auto current, find_object(transaction, *put.bucket, put.key));
  VB_TRY(check_conditions(*put.bucket, current, put.conditions));
  VB_ASSIGN(ObjectRecord record, replace_current(transaction, *put.bucket, bucket, put.key, current, put.info, put.blob,
                                                 transaction.now_us()));
  put.stored = std::move(record.info);
  name_version(put.stored, bucket.info.versioning);
  put.stored.stamp = transaction.stamp();
  transaction.on_commit([p = &put] { p->bucket->feed->tell(KeyEvent::created, p->key, p->stored); });
  return announce(transaction, put.conditions.announcement, bucket.id, put.stored);
}

// The change that commits a PUT with its blob, and the place of the answer.
struct Commit {
  std::shared_ptr<Put> put;
  Change change;
};

Commit commit_change(Put&& of, std::shared_ptr<BlobWriter> bytes) {
  of.info.parts.clear();
  auto put = std::make_shared<Put>(std::move(of));
  return {.put = put,
          .change = {.judge = [put](Transaction& transaction) { return judge_put(transaction, *put); },
                     .bucket = put->bucket,
                     .place = {put->bucket->id, put->key},
                     .blob = std::move(bytes),  // released on this core
                     .takes_space = true}};
}

// Acknowledges a PUT without conditions and events before the catalogue has it; nullopt: the catalogue comes first.
std::optional<ObjectInfo> put_early(const Context& context, const std::shared_ptr<const Bucket>& bucket,
                                    std::string_view key, ObjectInfo& info, memory::Chunk& bytes) {
  if (context.early == nullptr || context.early->size_max(*bucket) == 0) return std::nullopt;
  return context.early->put(bucket, key, info, bytes);
}

class StoreObjectWriter final : public ObjectWriter {
 public:
  StoreObjectWriter(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket, std::string key,
                    std::optional<uint64_t> size_hint)
      : context_(std::move(context)), bucket_(std::move(bucket)), key_(std::move(key)), size_hint_(size_hint) {
    if (size_hint_ && *size_hint_ > early_max()) bytes_ = context_->blobs->create(*bucket_, size_hint_);
  }

  Task<Result<void>> append(memory::Chunk chunk) override {
    if (committed_) co_return fail(Errc::invalid_argument, "writer: already committed");
    // An object in one piece may never need space on disk. The first of several pieces is not held: its memory is
    // charged, and the next one might wait for it.
    const size_t early_max = this->early_max();
    const size_t whole_max = size_hint_ ? early_max : std::min<size_t>(early_max, 64 * KiB);
    const bool all = chunk.bytes.size() == size_hint_.value_or(chunk.bytes.size());
    if (!bytes_ && !whole_ && all && early_max != 0 && chunk.bytes.size() <= whole_max) {
      whole_ = std::move(chunk);
      co_return Result<void>{};
    }
    VB_CO_TRY(co_await write_whole());
    co_return co_await bytes_->append(std::move(chunk));
  }

  std::optional<uint32_t> crc32c() const override { return bytes_ ? bytes_->crc32c() : std::nullopt; }

  Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions conditions) override {
    if (std::exchange(committed_, true)) co_return fail(Errc::invalid_argument, "writer: already committed");
    VB_CO_TRY(conditions.wanted.check());
    const uint64_t size = whole_ ? whole_->bytes.size() : bytes_ ? bytes_->size() : 0;
    if (stored_size(info) != size)
      co_return fail(Errc::incomplete_body, "writer: the size differs from what was appended");
    // Announced objects go to the catalogue at once, so that the event is committed with the object, and each
    // overwritten object has one.
    const bool plain = !conditions.if_match && !conditions.if_none_match && conditions.announcement == nullptr;
    if (!bytes_ && plain) {
      if (!whole_) whole_.emplace();
      if (auto stored = put_early(*context_, bucket_, key_, info, *whole_)) co_return std::move(*stored);
    }
    VB_CO_TRY(co_await write_whole());
    auto bytes = std::exchange(bytes_, nullptr);
    VB_CO_ASSIGN(const BlobRef blob, co_await bytes->finish());
    if (Early::holds_any(*bucket_)) VB_CO_TRY(co_await context_->early->settle(bucket_, key_));
    Commit last = commit_change({bucket_, key_, std::move(conditions), std::move(info), blob}, std::move(bytes));
    VB_CO_TRY(co_await context_->rows->commit(std::move(last.change)));
    co_return std::move(last.put->stored);
  }

 private:
  size_t early_max() const { return context_->early == nullptr ? 0 : context_->early->size_max(*bucket_); }
  // From here on the bytes go into a blob.
  Task<Result<void>> write_whole() {
    if (!bytes_) bytes_ = context_->blobs->create(*bucket_, size_hint_);
    if (!whole_) co_return Result<void>{};
    memory::Chunk whole = std::move(*whole_);
    whole_.reset();
    if (whole.bytes.empty()) co_return Result<void>{};
    co_return co_await bytes_->append(std::move(whole));
  }

  std::shared_ptr<Context> context_;
  std::shared_ptr<const Bucket> bucket_;
  std::string key_;
  const std::optional<uint64_t> size_hint_;
  std::optional<memory::Chunk> whole_;  // all bytes received so far, in one piece
  std::shared_ptr<BlobWriter> bytes_;
  bool committed_ = false;
};

}  // namespace

std::unique_ptr<ObjectWriter> make_object_writer(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                                 std::string key, std::optional<uint64_t> size_hint) {
  return std::make_unique<StoreObjectWriter>(std::move(context), std::move(bucket), std::move(key), size_hint);
}

// The steps of StoreObjectWriter for a single chunk, as far as they do not wait.
bool put_whole(Context& context, std::shared_ptr<const Bucket> bucket, WholePut& put) {
  if (stored_size(put.info) != put.bytes.bytes.size()) return false;
  if (auto wanted = put.wanted.check(); !wanted) {
    put.then(std::unexpected(wanted.error()));
    return true;
  }
  if (auto stored = put_early(context, bucket, put.key, put.info, put.bytes)) {
    put.then(std::move(*stored));
    return true;
  }
  if (Early::holds_any(*bucket)) return false;  // acknowledged objects of the key must reach the catalogue first
  BlobRef blob;
  auto bytes = context.blobs->create_whole(*bucket, put.bytes.bytes, blob);
  if (bytes == nullptr) return false;
  Commit last = commit_change(
      {std::move(bucket), std::string(put.key), {.wanted = std::move(put.wanted)}, std::move(put.info), blob}, bytes);
  last.change.more_follow = put.more_follow;
  auto told = [object = std::move(last.put), bytes = std::move(bytes),
               then = std::move(put.then)](Result<void> done) mutable {
    bytes.reset();  // released on the core that made it
    if (!done) return then(std::unexpected(done.error()));
    then(std::move(object->stored));
  };
  context.rows->commit_then(std::move(last.change), put.executor, std::move(told));
  return true;
}

}  // namespace verbena::store
