#include "store/logic/multipart.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/logic/ends.h"
#include "store/logic/events.h"
#include "store/logic/grounds.h"
#include "store/logic/usage.h"
#include "store/logic/versions.h"

namespace verbena::store {
namespace {

constexpr size_t upload_id_size = 48;

bool valid_upload_id(std::string_view id) {
  return id.size() == upload_id_size && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Parts that were uploaded, by number.
Result<std::vector<StoredPart>> stored_parts(View& rows, const UploadRecord& upload) {
  std::vector<StoredPart> parts;
  const auto cursor = rows.cursor(Table::uploads, keys::part_prefix(upload.id));
  for (; cursor->valid(); cursor->next()) {
    VB_ASSIGN(StoredPart part, decode_part(cursor->value()));
    parts.push_back(std::move(part));
  }
  VB_TRY(cursor->status());
  return parts;
}

// The stored parts, split into those that `wanted` names, in order, and the rest.
struct Chosen {
  std::vector<StoredPart> parts, unused;
  uint64_t size = 0, stored_size = 0;
};

Result<Chosen> choose(std::vector<StoredPart> stored, const std::vector<PartInfo>& wanted) {
  Chosen chosen;
  auto it = stored.begin();
  int previous = 0;
  for (const PartInfo& part : wanted) {
    if (part.number <= previous) return fail(Errc::invalid_part_order);
    previous = part.number;
    for (; it != stored.end() && it->info.number < part.number; ++it) chosen.unused.push_back(std::move(*it));
    // Attributes are compared, too: an encrypted part that was uploaded again has the same bytes and is another part.
    if (it == stored.end() || it->info.number != part.number || it->info.etag != part.etag ||
        it->info.attributes != part.attributes) {
      return fail(Errc::invalid_part);
    }
    chosen.size += it->info.size;
    chosen.stored_size += it->blob.size;
    if (chosen.stored_size > stored_size_max) return fail(Errc::entity_too_large);
    chosen.parts.push_back(std::move(*it++));
  }
  std::move(it, stored.end(), std::back_inserter(chosen.unused));
  return chosen;
}

// Removes the upload and its parts from the rows; the caller disposes of the parts' bytes.
void erase_upload(Transaction& transaction, const Bucket& bucket, const UploadRecord& upload,
                  const std::vector<StoredPart>& stored) {
  Usage gone{.uploads = 1};
  for (const StoredPart& part : stored) {
    transaction.erase(Table::uploads, keys::part(upload.id, part.info.number));
    gone += as_parts(part.info.size);
  }
  transaction.erase(Table::uploads, keys::upload(bucket.id, upload.info.key, upload.info.upload_id));
  transaction.count(-gone);
}

// The info of the object that the upload becomes.
ObjectInfo completed_info(const Completion& c, UploadRecord& upload, const Chosen& chosen) {
  ObjectInfo info = c.info;
  info.size = chosen.size;
  info.stored_size = chosen.stored_size == chosen.size ? 0 : chosen.stored_size;
  info.parts.clear();
  info.tags = std::move(upload.info.tags);
  info.lock = upload.info.lock;
  change_attributes(upload.info.attributes, c.info.attributes);
  info.attributes = std::move(upload.info.attributes);
  return info;
}

Result<void> judge_completion(Transaction& transaction, Completion& c) {
  VB_ASSIGN(UploadRecord upload, upload_in(transaction, *c.bucket, c.key, c.upload_id));
  VB_ASSIGN(BucketRecord bucket, check_bucket(transaction, *c.bucket));
  VB_ASSIGN(auto stored, stored_parts(transaction, upload));
  VB_ASSIGN(Chosen chosen, choose(stored, c.parts));
  VB_ASSIGN(auto current, find_object(transaction, *c.bucket, c.key));
  VB_TRY(check_conditions(*c.bucket, current, c.conditions));

  VB_TRY(step_aside(transaction, *c.bucket, bucket, c.key, current));
  // The parts that the object names become its own, the others are removed.
  erase_upload(transaction, *c.bucket, upload, stored);
  for (const StoredPart& part : chosen.unused) transaction.kill(part.blob);
  ObjectInfo info = completed_info(c, upload, chosen);
  VB_ASSIGN(const int64_t time_us, time_after(transaction, bucket.id, c.key, info_of(current), transaction.now_us()));
  VB_ASSIGN(ObjectRecord record, new_record(transaction, *c.bucket, bucket, std::move(info), time_us));
  record.part_count = static_cast<uint32_t>(chosen.parts.size());
  transaction.put(Table::uploads, keys::object_parts(record.id), encode(chosen.parts));
  transaction.put(Table::objects, keys::object(c.bucket->id, c.key), encode(record));
  move_end(transaction, bucket.id, c.key, info_of(current), &record.info);
  transaction.count(as_current(record));
  c.stored = std::move(record.info);
  name_version(c.stored, bucket.info.versioning);
  for (StoredPart& part : chosen.parts) c.stored.parts.push_back(std::move(part.info));
  transaction.on_commit([p = &c] { p->bucket->feed->tell(KeyEvent::created, p->key, p->stored); });
  return announce(transaction, c.conditions.announcement, bucket.id, c.stored);
}

struct PutPart {
  std::shared_ptr<const Bucket> bucket;
  std::string key, upload_id;
  PartInfo info{};
  BlobRef blob{};
};

Result<void> judge_part(Transaction& transaction, PutPart& put) {
  VB_ASSIGN(UploadRecord upload, upload_in(transaction, *put.bucket, put.key, put.upload_id));
  const std::string row = keys::part(upload.id, put.info.number);
  VB_ASSIGN(auto earlier, find_row(transaction, Table::uploads, row));
  put.info.modified_us = transaction.now_us();
  if (earlier) {
    VB_ASSIGN(StoredPart part, decode_part(*earlier));
    put.info.modified_us = std::max(put.info.modified_us, part.info.modified_us + 1);
    transaction.kill(part.blob);
    transaction.count(-as_parts(part.info.size));
  }
  transaction.put(Table::uploads, row, encode(StoredPart{put.info, put.blob}));
  transaction.count(as_parts(put.info.size));
  return {};
}

class PartWriter final : public ObjectWriter {
 public:
  PartWriter(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket, std::string key,
             std::string upload_id, int number, std::optional<uint64_t> size_hint)
      : context_(std::move(context)),
        put_(std::make_shared<PutPart>()),
        bytes_(context_->blobs->create(*bucket, size_hint)) {
    put_->bucket = std::move(bucket);
    put_->key = std::move(key);
    put_->upload_id = std::move(upload_id);
    put_->info.number = number;
  }

  Task<Result<void>> append(memory::Chunk chunk) override {
    if (!bytes_) co_return fail(Errc::invalid_argument, "writer: already committed");
    if (bytes_->size() + chunk.bytes.size() > part_stored_size_max) co_return fail(Errc::entity_too_large);
    co_return co_await bytes_->append(std::move(chunk));
  }
  std::optional<uint32_t> crc32c() const override { return bytes_ ? bytes_->crc32c() : std::nullopt; }

  // A part has no conditions.
  Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions) override {
    if (!bytes_) co_return fail(Errc::invalid_argument, "writer: already committed");
    auto bytes = std::exchange(bytes_, nullptr);
    if (stored_size(info) != bytes->size())
      co_return fail(Errc::incomplete_body, "writer: the size differs from what was appended");
    auto put = put_;
    put->info.size = info.size;
    put->info.stored_size = info.stored_size;
    put->info.etag = info.etag;
    put->info.attributes = info.attributes;
    put->info.checksums = info.checksums;
    VB_CO_ASSIGN(put->blob, co_await bytes->finish());
    Change change{.judge = [put](Transaction& transaction) { return judge_part(transaction, *put); },
                  .bucket = put->bucket,
                  .place = {put->bucket->id, put->key},
                  .blob = bytes,  // freed on this core
                  .takes_space = true};
    VB_CO_TRY(co_await context_->rows->commit(std::move(change)));
    info.modified_us = put->info.modified_us;
    co_return info;
  }

 private:
  std::shared_ptr<Context> context_;
  std::shared_ptr<PutPart> put_;
  std::shared_ptr<BlobWriter> bytes_;
};

}  // namespace

std::string make_upload_id(int64_t created_us) {
  std::byte random[16];
  fill_random(random);
  return fmt::format("{:016x}", static_cast<uint64_t>(created_us)) + to_hex(random);
}

Result<UploadRecord> find_upload(View& rows, const Bucket& bucket, std::string_view key, std::string_view upload_id) {
  if (!valid_upload_id(upload_id)) return fail(Errc::no_such_upload);
  VB_ASSIGN(auto value, find_row(rows, Table::uploads, keys::upload(bucket.id, key, upload_id)));
  if (!value) return fail(Errc::no_such_upload);
  VB_ASSIGN(UploadRecord upload, decode_upload(*value));
  upload.info.bucket = bucket.name;
  upload.info.key = key;
  upload.info.upload_id = upload_id;
  return upload;
}

Result<UploadRecord> upload_in(Transaction& transaction, const Bucket& bucket, std::string_view key,
                               std::string_view upload_id) {
  VB_TRY(check_bucket(transaction, bucket));
  return find_upload(transaction, bucket, key, upload_id);
}

Result<PartPage> list_parts(View& rows, const UploadRecord& upload, int after_part, int max_parts) {
  PartPage page;
  size_t room = static_cast<size_t>(std::clamp(max_parts, 0, part_number_max));
  const auto cursor = rows.cursor(Table::uploads, keys::part_prefix(upload.id));
  if (after_part > 0) cursor->seek(keys::part(upload.id, after_part) + '\0');
  for (; cursor->valid(); cursor->next()) {
    if (page.parts.size() == room) {
      page.truncated = room != 0;
      break;
    }
    VB_ASSIGN(StoredPart part, decode_part(cursor->value()));
    page.parts.push_back(std::move(part.info));
  }
  VB_TRY(cursor->status());
  if (page.truncated) page.next_part_number_marker = page.parts.back().number;
  return page;
}

Change create_upload_change(std::shared_ptr<const Bucket> bucket, std::shared_ptr<const UploadInfo> info) {
  auto judge = [bucket, info](Transaction& transaction) -> Result<void> {
    VB_ASSIGN(BucketRecord now, check_bucket(transaction, *bucket));
    // Checked here too, so that the client gets the error before it uploads parts.
    if (info->lock != ObjectLock{} && !now.info.lock.enabled) {
      return fail(Errc::invalid_request, "Bucket is missing Object Lock Configuration.");
    }
    VB_ASSIGN(const uint64_t id, transaction.next_id());
    const UploadRecord record{.id = id, .info = *info};
    transaction.put(Table::uploads, keys::upload(bucket->id, info->key, info->upload_id), encode(record));
    transaction.count({.uploads = 1});
    return {};
  };
  return {.judge = std::move(judge), .bucket = bucket, .place = {bucket->id, info->key}, .takes_space = true};
}

Change abort_upload_change(std::shared_ptr<const Bucket> bucket, std::string key, std::string upload_id,
                           RemovalGroundsPtr grounds) {
  struct Abort {
    std::shared_ptr<const Bucket> bucket;
    std::string key, upload_id;
    RemovalGroundsPtr grounds;
  };
  const auto abort =
      std::make_shared<const Abort>(Abort{std::move(bucket), std::move(key), std::move(upload_id), std::move(grounds)});
  auto judge = [abort](Transaction& transaction) -> Result<void> {
    if (abort->grounds) {
      VB_ASSIGN(const BucketRecord now, check_bucket(transaction, *abort->bucket));
      VB_TRY(check_rules(transaction, now, *abort->grounds));
    }
    VB_ASSIGN(UploadRecord upload, upload_in(transaction, *abort->bucket, abort->key, abort->upload_id));
    VB_ASSIGN(auto parts, stored_parts(transaction, upload));
    for (const StoredPart& part : parts) transaction.kill(part.blob);
    erase_upload(transaction, *abort->bucket, upload, parts);
    return {};
  };
  return {.judge = std::move(judge), .bucket = abort->bucket, .place = {abort->bucket->id, abort->key}};
}

Change completion_change(std::shared_ptr<Completion> completion) {
  auto judge = [completion](Transaction& transaction) { return judge_completion(transaction, *completion); };
  return {.judge = std::move(judge),
          .bucket = completion->bucket,
          .place = {completion->bucket->id, completion->key},
          .takes_space = true};
}

std::unique_ptr<ObjectWriter> make_part_writer(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                               std::string key, std::string upload_id, int part_number,
                                               std::optional<uint64_t> size_hint) {
  return std::make_unique<PartWriter>(std::move(context), std::move(bucket), std::move(key), std::move(upload_id),
                                      part_number, size_hint);
}

}  // namespace verbena::store
