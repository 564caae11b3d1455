#include "store/local/local_store.h"

#include "store/local/bucket_ops.h"
#include "store/local/engine.h"
#include "store/local/list.h"
#include "store/local/list_versions.h"
#include "store/local/multipart.h"
#include "store/local/object_ops.h"
#include "store/local/reader.h"
#include "store/local/remove.h"
#include "store/local/scrub.h"
#include "store/local/write_behind.h"

namespace verbena::store::local {

Result<std::unique_ptr<LocalStore>> LocalStore::open(Options options) {
  if (options.arena == nullptr || options.pool == nullptr) return fail(Errc::invalid_argument, "store: options");
  if (options.volume_size_max < 1 * MiB) return fail(Errc::invalid_argument, "store: volume_size_max");
  auto engine = std::make_shared<Engine>(std::move(options));
  VB_TRY(engine->start());
  return std::unique_ptr<LocalStore>(new LocalStore(std::move(engine)));
}

LocalStore::~LocalStore() { engine_->stop(); }

void LocalStore::drain() {
  engine_->behind->flush();
  engine_->garbage->drain();
}

Result<ScrubReport> LocalStore::scrub() {
  drain();
  return Scrub(*engine_).run_once();
}

Result<LocalStore::Usage> LocalStore::usage() {
  engine_->behind->flush();
  Usage usage;
  Cursor cursor = engine_->index->cursor(Family::extents, "");
  for (; cursor.valid(); cursor.next()) {
    if (cursor.key().empty()) continue;  // the mark that Index::recover() leaves
    VB_ASSIGN(ExtentOwner owner, decode_extent_owner(cursor.value()));
    usage.live_bytes += owner.length;
  }
  VB_TRY(cursor.status());
  VB_ASSIGN(auto ids, engine_->volumes->on_disk());
  for (uint64_t id : ids) {
    auto stat = engine_->fs->stat(engine_->volumes->path(id));
    if (!stat) continue;  // unlinked meanwhile
    usage.allocated_bytes += stat->allocated_bytes;
    ++usage.volumes;
  }
  return usage;
}

// Buckets.

Task<Result<void>> LocalStore::create_bucket(BucketInfo bucket) {
  auto engine = engine_;
  co_return co_await engine->committer->submit(create_bucket_mutation(*engine, std::move(bucket)));
}

Task<Result<BucketInfo>> LocalStore::bucket(std::string_view name) {
  VB_CO_ASSIGN(auto found, engine_->find_bucket(name));
  co_return found->info();
}

Task<Result<void>> LocalStore::set_durability(std::string_view name, Durability durability) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(name));
  auto change = [durability](BucketInfo& info) -> Result<void> {
    info.durability = durability;
    return {};
  };
  WriteBehind::Shut shut(*engine->behind, found);
  VB_CO_TRY(co_await engine->behind->settle(found));
  if (durability == Durability::memory) {
    co_return co_await engine->committer->submit(change_bucket_mutation(found, change));
  }
  // What the bucket acknowledged from memory so far becomes durable, too: first, since a bucket whose objects may be
  // gone must not become one that promises otherwise, and again for what came until it was one.
  const auto sync = [engine]() -> Result<void> {
    VB_TRY(engine->volumes->sync_written_behind());
    return engine->index->sync();
  };
  VB_CO_TRY(co_await engine->pool().run("durability change", sync));
  VB_CO_TRY(co_await engine->committer->submit(change_bucket_mutation(found, change)));
  co_return co_await engine->pool().run("durability change", sync);
}

Task<Result<void>> LocalStore::set_versioning(std::string_view name, Versioning versioning) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(name));
  auto change = [versioning](BucketInfo& info) -> Result<void> {
    if (versioning == Versioning::off && info.versioning != versioning) return fail(Errc::invalid_bucket_state);
    if (versioning == Versioning::suspended && info.lock.enabled) {
      return fail(Errc::invalid_bucket_state,
                  "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.");
    }
    info.versioning = versioning;
    return {};
  };
  WriteBehind::Shut shut(*engine->behind, found);
  VB_CO_TRY(co_await engine->behind->settle(found));
  co_return co_await engine->committer->submit(change_bucket_mutation(found, change));
}

Task<Result<void>> LocalStore::set_lock(std::string_view name, BucketLock lock) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(name));
  auto change = [lock](BucketInfo& info) -> Result<void> {
    if (lock.enabled && info.versioning != Versioning::enabled) {
      return fail(Errc::invalid_bucket_state,
                  "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration.");
    }
    if (info.lock.enabled && !lock.enabled) return fail(Errc::invalid_bucket_state, "object lock stays enabled");
    info.lock = lock;
    return {};
  };
  co_return co_await engine->committer->submit(change_bucket_mutation(found, change));
}

Task<Result<void>> LocalStore::remove_bucket(std::string_view name) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(name));
  WriteBehind::Shut shut(*engine->behind, found);
  VB_CO_TRY(co_await engine->behind->settle(found));
  VB_CO_TRY(co_await engine->committer->submit(remove_bucket_mutation(*engine, found)));
  shut.for_ever();
  co_return Result<void>{};
}

Task<Result<std::vector<BucketInfo>>> LocalStore::buckets() { co_return engine_->buckets.list(); }

Task<Result<Document>> LocalStore::document(std::string_view bucket, std::string_view name) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  VB_CO_ASSIGN(Document kept, found->documents.get(name));
  if (kept) co_return kept;
  const std::string key = keys::document(found->id, name);
  auto read = engine->index->get(Family::meta, key, Tier::cached, View::durable);
  if (!read && read.error() == Errc::would_block) {
    auto work = [engine, key] { return engine->index->get(Family::meta, key, Tier::disk, View::durable); };
    read = co_await engine->pool().run("document read", std::move(work));
  }
  VB_CO_ASSIGN(std::string bytes, std::move(read));
  co_return std::make_shared<const std::string>(std::move(bytes));
}

Task<Result<void>> LocalStore::set_document(std::string_view bucket, std::string_view name, std::string bytes) {
  auto engine = engine_;
  VB_CO_TRY(check_document(name, bytes));
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  const DocumentRoom room(found->documents, name, bytes.size());
  if (!room) {
    co_return fail(Errc::limit_exceeded, "The configurations of all your buckets together are too large.");
  }
  auto document = std::make_shared<const std::string>(std::move(bytes));
  co_return co_await engine->committer->submit(set_document_mutation(found, std::string(name), std::move(document)));
}

Task<Result<void>> LocalStore::remove_document(std::string_view bucket, std::string_view name) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  co_return co_await engine->committer->submit(remove_document_mutation(found, std::string(name)));
}

// Objects.

Task<Result<std::shared_ptr<ObjectReader>>> LocalStore::open(std::string_view bucket, std::string_view key,
                                                             std::string_view version_id) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  VB_CO_TRY(check_key(key));
  if (WriteBehind::holds_any(*found)) {
    if (!version_id.empty()) {
      VB_CO_TRY(co_await engine->behind->settle(found, std::string(key)));
    } else if (auto acknowledged = engine->behind->find(*found, key)) {
      co_return open_acknowledged(std::move(acknowledged));
    }
  }
  // What RocksDB has in memory is answered here and now; only a read from disk is worth a thread.
  auto opened = open_object(engine, found, {key, version_id}, Tier::cached);
  if (opened || !(opened.error() == Errc::would_block)) co_return opened;
  auto work = [engine, found, key = std::string(key), id = std::string(version_id)] {
    return open_object(engine, found, {key, id}, Tier::disk);
  };
  co_return co_await engine->pool().run("object open", std::move(work));
}

Task<Result<ObjectInfo>> LocalStore::stat(std::string_view bucket, std::string_view key, std::string_view version_id) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  VB_CO_TRY(check_key(key));
  if (WriteBehind::holds_any(*found)) {
    if (!version_id.empty()) {
      VB_CO_TRY(co_await engine->behind->settle(found, std::string(key)));
    } else if (auto acknowledged = engine->behind->find(*found, key)) {
      co_return acknowledged->info;
    }
  }
  auto info = stat_object(*engine, *found, {key, version_id}, Tier::cached);
  if (info || !(info.error() == Errc::would_block)) co_return info;
  auto work = [engine, found, key = std::string(key), id = std::string(version_id)] {
    return stat_object(*engine, *found, {key, id}, Tier::disk);
  };
  co_return co_await engine->pool().run("object stat", std::move(work));
}

Task<Result<ObjectInfo>> LocalStore::find_version(std::string_view bucket, std::string_view key,
                                                  std::string_view version_id) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  VB_CO_TRY(check_key(key));
  if (WriteBehind::holds_any(*found)) VB_CO_TRY(co_await engine->behind->settle(found, std::string(key)));
  auto work = [engine, found, key = std::string(key), id = std::string(version_id)] {
    return stat_version(*engine, *found, {key, id});
  };
  co_return co_await engine->pool().run("version stat", std::move(work));
}

Task<Result<std::unique_ptr<ObjectWriter>>> LocalStore::create(std::string_view bucket, std::string_view key,
                                                               std::optional<uint64_t> size_hint) {
  VB_CO_ASSIGN(auto found, engine_->find_bucket(bucket));
  VB_CO_TRY(check_key(key));
  if (size_hint && *size_hint > object_size_max) co_return fail(Errc::entity_too_large);
  co_return make_object_writer(engine_, std::move(found), std::string(key), size_hint);
}

Task<Result<Removed>> LocalStore::remove(std::string_view bucket, std::string_view key, RemoveRequest request) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  VB_CO_TRY(check_key(key));
  if (WriteBehind::holds_any(*found)) VB_CO_TRY(co_await engine->behind->settle(found, std::string(key)));
  auto removal = std::make_shared<Removal>(Removal{engine, found, std::string(key), std::move(request), {}});
  VB_CO_TRY(co_await engine->committer->submit(remove_mutation(removal)));
  co_return std::move(removal->removed);
}

Task<Result<ObjectInfo>> LocalStore::update(std::string_view bucket, std::string_view key, std::string_view version_id,
                                            ObjectChange change) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  VB_CO_TRY(check_key(key));
  if (WriteBehind::holds_any(*found)) VB_CO_TRY(co_await engine->behind->settle(found, std::string(key)));
  auto update =
      std::make_shared<Update>(Update{found, std::string(key), std::string(version_id), std::move(change), {}});
  VB_CO_TRY(co_await engine->committer->submit(update_mutation(update)));
  co_return std::move(update->info);
}

Task<Result<ListPage>> LocalStore::list(std::string_view bucket, ListRequest request) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  VB_CO_TRY(co_await engine->behind->settle(found));
  auto work = [engine, found, request = std::move(request)] { return list_objects(*engine, *found, request); };
  co_return co_await engine->pool().run("object list", std::move(work));
}

Task<Result<VersionPage>> LocalStore::list_versions(std::string_view bucket, ListVersionsRequest request) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  VB_CO_TRY(co_await engine->behind->settle(found));
  auto work = [engine, found, request = std::move(request)] { return local::list_versions(*engine, *found, request); };
  co_return co_await engine->pool().run("version list", std::move(work));
}

// Multipart.

Task<Result<UploadInfo>> LocalStore::create_upload(UploadInfo upload) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(upload.bucket));
  VB_CO_TRY(check_key(upload.key));
  upload.created_us = engine->options.clock->now_us();
  upload.upload_id = make_upload_id(upload.created_us);
  VB_CO_TRY(co_await engine->committer->submit(local::create_upload(engine, found, upload)));
  co_return upload;
}

Task<Result<UploadInfo>> LocalStore::upload(std::string_view bucket, std::string_view key, std::string_view upload_id) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  auto work = [engine, found, key = std::string(key), id = std::string(upload_id)] {
    return find_upload(*engine, *found, key, id);
  };
  VB_CO_ASSIGN(UploadRecord record, co_await engine->pool().run("upload stat", std::move(work)));
  co_return std::move(record.info);
}

Task<Result<std::unique_ptr<ObjectWriter>>> LocalStore::create_part(std::string_view bucket, std::string_view key,
                                                                    std::string_view upload_id, int part_number,
                                                                    std::optional<uint64_t> size_hint) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  if (part_number < 1 || part_number > part_number_max) co_return fail(Errc::invalid_argument, "part number");
  if (size_hint && *size_hint > part_stored_size_max) co_return fail(Errc::entity_too_large);
  std::string key_copy(key), id(upload_id);
  // Asked for now so that a client hears early; the commit decides.
  auto work = [engine, found, key_copy, id] { return find_upload(*engine, *found, key_copy, id); };
  VB_CO_TRY(co_await engine->pool().run("upload stat", std::move(work)));
  co_return make_part_writer(engine, std::move(found), std::move(key_copy), std::move(id), part_number, size_hint);
}

Task<Result<PartPage>> LocalStore::list_parts(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                              int after_part, int max_parts) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  auto work = [engine, found, key = std::string(key), id = std::string(upload_id), after_part,
               max_parts]() -> Result<PartPage> {
    VB_ASSIGN(UploadRecord upload, find_upload(*engine, *found, key, id));
    return local::list_parts(*engine, *found, upload, after_part, max_parts);
  };
  co_return co_await engine->pool().run("part list", std::move(work));
}

Task<Result<UploadPage>> LocalStore::list_uploads(std::string_view bucket, ListUploadsRequest request) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  auto work = [engine, found, request = std::move(request)] { return local::list_uploads(*engine, *found, request); };
  co_return co_await engine->pool().run("upload list", std::move(work));
}

Task<Result<ObjectInfo>> LocalStore::complete_upload(std::string_view bucket, std::string_view key,
                                                     std::string_view upload_id, std::vector<PartInfo> parts,
                                                     ObjectInfo info, CommitConditions conditions) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  auto completion = std::make_shared<Completion>(Completion{engine, found, std::string(key), std::string(upload_id),
                                                            std::move(parts), std::move(info), std::move(conditions)});
  VB_CO_TRY(check_key(key));
  if (completion->parts.empty()) co_return fail(Errc::invalid_request, "complete: no parts");
  if (WriteBehind::holds_any(*found)) VB_CO_TRY(co_await engine->behind->settle(found, std::string(key)));
  VB_CO_TRY(co_await engine->committer->submit(local::complete_upload(completion)));
  co_return std::move(completion->info);
}

Task<Result<void>> LocalStore::abort_upload(std::string_view bucket, std::string_view key, std::string_view upload_id) {
  auto engine = engine_;
  VB_CO_ASSIGN(auto found, engine->find_bucket(bucket));
  co_return co_await engine->committer->submit(local::abort_upload(found, std::string(key), std::string(upload_id)));
}

}  // namespace verbena::store::local
