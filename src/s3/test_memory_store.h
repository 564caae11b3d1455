// For tests: a store in memory that keeps store.h's promises, with a knob for rot.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "store/store.h"

namespace verbena::s3::test {

struct StoredObject {
  store::ObjectInfo info;
  std::string data;
};

struct StoredUpload {
  store::UploadInfo info;
  std::map<int, StoredObject> parts;
};

struct StoredBucket {
  store::BucketInfo info;
  std::map<std::string, std::deque<std::shared_ptr<const StoredObject>>> objects;  // newest first
  std::map<std::string, StoredUpload> uploads;                                     // by upload id
  std::map<std::string, store::Document, std::less<>> documents;
};

class MemoryStore : public store::Store {
 public:
  explicit MemoryStore(memory::Arena& arena) : arena_(arena) {}

  std::optional<uint64_t> rot_at;          // reads that touch this offset are corrupt
  std::optional<Errc> append_error;        // the next append fails so
  int64_t now_us = 1'767'323'045'678'000;  // 2026-01-02T03:04:05.678Z; each commit is a second later
  std::function<Task<>()> before_update;   // happens once, between the request for a change and the change

  Task<Result<void>> create_bucket(store::BucketInfo bucket) override {
    if (buckets_.contains(bucket.name)) co_return fail(Errc::bucket_already_exists);
    const std::string name = bucket.name;
    buckets_[name].info = std::move(bucket);
    co_return Result<void>();
  }
  Task<Result<store::BucketInfo>> bucket(std::string_view name) override {
    VB_CO_ASSIGN(StoredBucket * found, find(name));
    co_return found->info;
  }
  Task<Result<void>> set_durability(std::string_view name, store::Durability durability) override {
    VB_CO_ASSIGN(StoredBucket * found, find(name));
    found->info.durability = durability;
    co_return Result<void>();
  }
  Task<Result<void>> set_versioning(std::string_view name, store::Versioning versioning) override {
    VB_CO_ASSIGN(StoredBucket * found, find(name));
    const bool locked = found->info.lock.enabled && versioning != store::Versioning::enabled;
    if (locked || versioning == store::Versioning::off) co_return fail(Errc::invalid_bucket_state);
    found->info.versioning = versioning;
    co_return Result<void>();
  }
  Task<Result<void>> set_lock(std::string_view name, store::BucketLock lock) override {
    VB_CO_ASSIGN(StoredBucket * found, find(name));
    if (found->info.versioning != store::Versioning::enabled) co_return fail(Errc::invalid_bucket_state);
    found->info.lock = lock;
    co_return Result<void>();
  }
  Task<Result<void>> remove_bucket(std::string_view name) override {
    VB_CO_ASSIGN(StoredBucket * found, find(name));
    if (!found->objects.empty()) co_return fail(Errc::bucket_not_empty);
    buckets_.erase(buckets_.find(name));
    co_return Result<void>();
  }
  Task<Result<std::vector<store::BucketInfo>>> buckets() override {
    std::vector<store::BucketInfo> all;
    for (const auto& [name, bucket] : buckets_) all.push_back(bucket.info);
    co_return all;
  }

  Task<Result<store::Document>> document(std::string_view bucket, std::string_view name) override {
    VB_CO_ASSIGN(StoredBucket * found, find(bucket));
    const auto it = found->documents.find(name);
    if (it == found->documents.end()) co_return fail(Errc::not_found, "document");
    co_return it->second;
  }
  Task<Result<void>> set_document(std::string_view bucket, std::string_view name, std::string bytes) override {
    VB_CO_TRY(store::check_document(name, bytes));
    VB_CO_ASSIGN(StoredBucket * found, find(bucket));
    found->documents[std::string(name)] = std::make_shared<const std::string>(std::move(bytes));
    co_return Result<void>();
  }
  Task<Result<void>> remove_document(std::string_view bucket, std::string_view name) override {
    VB_CO_ASSIGN(StoredBucket * found, find(bucket));
    found->documents.erase(std::string(name));
    co_return Result<void>();
  }

  Task<Result<std::shared_ptr<store::ObjectReader>>> open(std::string_view bucket, std::string_view key,
                                                          std::string_view version_id) override {
    VB_CO_ASSIGN(auto object, find_object(bucket, key, version_id));
    co_return std::make_shared<Reader>(*this, object);
  }
  Task<Result<store::ObjectInfo>> stat(std::string_view bucket, std::string_view key,
                                       std::string_view version_id) override {
    VB_CO_ASSIGN(auto object, find_object(bucket, key, version_id));
    co_return object->info;
  }
  Task<Result<store::ObjectInfo>> find_version(std::string_view bucket, std::string_view key,
                                               std::string_view version_id) override {
    VB_CO_ASSIGN(auto object, find_any(bucket, key, version_id));
    co_return object->info;
  }
  Task<Result<std::unique_ptr<store::ObjectWriter>>> create(std::string_view bucket, std::string_view key,
                                                            std::optional<uint64_t>) override {
    VB_CO_TRY(find(bucket));
    co_return std::make_unique<Writer>(*this, std::string(bucket), std::string(key), "", 0);
  }
  Task<Result<store::Removed>> remove(std::string_view bucket, std::string_view key,
                                      store::RemoveRequest request) override {
    VB_CO_ASSIGN(StoredBucket * found, find(bucket));
    const auto object = find_any(bucket, key, request.version_id);
    store::Removed removed{request.version_id, false};
    if (object) VB_CO_TRY(check_remove((*object)->info, request, request.version_id.empty()));
    if (!request.version_id.empty()) {
      if (!object) co_return removed;
      removed.delete_marker = (*object)->info.delete_marker;
      std::erase(found->objects[std::string(key)], *object);
      co_return removed;
    }
    if (found->info.versioning == store::Versioning::off) {
      found->objects.erase(std::string(key));
      co_return removed;
    }
    if (!object && request.conditions.any()) co_return removed;
    StoredObject marker;
    marker.info.delete_marker = true;
    removed = {add(*found, std::string(key), std::move(marker)).version_id, true};
    co_return removed;
  }
  Task<Result<store::ObjectInfo>> update(std::string_view bucket, std::string_view key, std::string_view version_id,
                                         store::ObjectChange change) override {
    if (const auto happens = std::exchange(before_update, nullptr)) co_await happens();
    VB_CO_ASSIGN(auto object, find_object(bucket, key, version_id));
    if (!change.is_of(object->info)) co_return fail(Errc::conditional_conflict);
    auto changed = std::make_shared<StoredObject>(*object);
    store::change_attributes(changed->info.attributes, change.attributes);
    if (change.tags) changed->info.tags = *change.tags;
    if (change.legal_hold) changed->info.lock.legal_hold = *change.legal_hold;
    if (change.retention) {
      changed->info.lock.mode = change.retention->first;
      changed->info.lock.retain_until_us = change.retention->second;
    }
    auto& all = find(bucket).value()->objects[std::string(key)];
    *std::ranges::find(all, object) = changed;
    co_return changed->info;
  }
  Task<Result<store::VersionPage>> list_versions(std::string_view bucket, store::ListVersionsRequest request) override {
    VB_CO_ASSIGN(StoredBucket * found, find(bucket));
    store::VersionPage page;
    bool behind = request.version_id_marker.empty();
    for (const auto& [key, all] : found->objects) {
      if (!key.starts_with(request.prefix) || key < request.key_marker) continue;
      if (key == request.key_marker && request.version_id_marker.empty()) continue;
      if (key > request.key_marker) behind = true;
      for (const auto& object : all) {
        // Ids fall with age, so a marker that is gone still has a place.
        const auto order = object->info.version_id.compare(request.version_id_marker);
        behind = behind || order <= 0;
        if (!behind || (key == request.key_marker && order == 0)) continue;
        if (static_cast<int>(page.versions.size()) == request.max_keys) {
          page.truncated = true;
          co_return page;
        }
        page.versions.push_back({key, object->info, object == all.front()});
        page.next_key_marker = key;
        page.next_version_id_marker = object->info.version_id;
      }
    }
    co_return page;
  }
  Task<Result<store::ListPage>> list(std::string_view bucket, store::ListRequest request) override {
    VB_CO_ASSIGN(StoredBucket * found, find(bucket));
    co_return list_page(*found, request);
  }

  Task<Result<store::UploadInfo>> create_upload(store::UploadInfo upload) override {
    VB_CO_ASSIGN(StoredBucket * found, find(upload.bucket));
    upload.upload_id = fmt::format("upload-{:04}", ++uploads_made_);
    upload.created_us = now_us;
    found->uploads[upload.upload_id].info = upload;
    co_return upload;
  }
  Task<Result<store::UploadInfo>> upload(std::string_view bucket, std::string_view key, std::string_view id) override {
    VB_CO_ASSIGN(StoredUpload * found, find_upload(bucket, key, id));
    co_return found->info;
  }
  Task<Result<std::unique_ptr<store::ObjectWriter>>> create_part(std::string_view bucket, std::string_view key,
                                                                 std::string_view id, int number,
                                                                 std::optional<uint64_t>) override {
    VB_CO_TRY(find_upload(bucket, key, id));
    co_return std::make_unique<Writer>(*this, std::string(bucket), std::string(key), std::string(id), number);
  }
  Task<Result<store::PartPage>> list_parts(std::string_view bucket, std::string_view key, std::string_view id,
                                           int after, int max) override {
    VB_CO_ASSIGN(StoredUpload * found, find_upload(bucket, key, id));
    store::PartPage page;
    for (auto it = found->parts.upper_bound(after); it != found->parts.end(); ++it) {
      if (static_cast<int>(page.parts.size()) == max) {
        page.truncated = true;
        break;
      }
      const auto& info = it->second.info;
      page.parts.push_back(
          {it->first, info.size, info.etag, info.modified_us, info.checksums, info.attributes, info.stored_size});
      page.next_part_number_marker = it->first;
    }
    co_return page;
  }
  Task<Result<store::UploadPage>> list_uploads(std::string_view bucket, store::ListUploadsRequest request) override {
    VB_CO_ASSIGN(StoredBucket * found, find(bucket));
    std::set<std::pair<std::string, std::string>> sorted;
    for (const auto& [id, upload] : found->uploads) sorted.emplace(upload.info.key, id);
    store::UploadPage page;
    for (const auto& [key, id] : sorted) {
      if (!key.starts_with(request.prefix)) continue;
      if (std::pair(key, id) <= std::pair(request.key_marker, request.upload_id_marker)) continue;
      if (key == request.key_marker && request.upload_id_marker.empty()) continue;
      if (static_cast<int>(page.uploads.size()) == request.max_uploads) {
        page.truncated = true;
        break;
      }
      page.uploads.push_back(found->uploads[id].info);
      page.next_key_marker = key;
      page.next_upload_id_marker = id;
    }
    co_return page;
  }
  Task<Result<store::ObjectInfo>> complete_upload(std::string_view bucket, std::string_view key, std::string_view id,
                                                  std::vector<store::PartInfo> parts, store::ObjectInfo info,
                                                  store::CommitConditions conditions) override {
    VB_CO_ASSIGN(StoredUpload * found, find_upload(bucket, key, id));
    StoredObject object;
    uint64_t size = 0;
    for (const auto& part : parts) {
      const auto stored = found->parts.find(part.number);
      if (stored == found->parts.end() || stored->second.info.etag != part.etag) co_return fail(Errc::invalid_part);
      object.data += stored->second.data;
      size += stored->second.info.size;
    }
    info.size = size;
    info.stored_size = object.data.size() == size ? 0 : object.data.size();
    store::Attributes attributes = found->info.attributes;
    store::change_attributes(attributes, info.attributes);
    info.attributes = std::move(attributes);
    info.parts = std::move(parts);
    info.tags = found->info.tags;
    info.lock = found->info.lock;
    object.info = std::move(info);
    StoredBucket& in = *find(bucket).value();
    VB_CO_TRY(check(in, std::string(key), conditions));
    in.uploads.erase(std::string(id));
    co_return add(in, std::string(key), std::move(object));
  }
  Task<Result<void>> abort_upload(std::string_view bucket, std::string_view key, std::string_view id) override {
    VB_CO_TRY(find_upload(bucket, key, id));
    find(bucket).value()->uploads.erase(std::string(id));
    co_return Result<void>();
  }

  // What is kept of a key's current object.
  const StoredObject& object(const std::string& bucket, const std::string& key) {
    return *buckets_.at(bucket).objects.at(key).front();
  }

 private:
  class Reader : public store::ObjectReader {
   public:
    Reader(MemoryStore& store, std::shared_ptr<const StoredObject> object)
        : store_(store), object_(std::move(object)) {}
    const store::ObjectInfo& info() const override { return object_->info; }
    Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override {
      const auto rot = store_.rot_at;
      if (rot && *rot >= offset && *rot < offset + length) co_return fail(Errc::corrupt_object, "block");
      VB_CO_ASSIGN(memory::Lease lease, store_.arena_.lease(length));
      std::memcpy(lease.data(), object_->data.data() + offset, length);
      const Bytes bytes = Bytes(lease.bytes()).first(length);
      co_return memory::Chunk{std::move(lease), bytes};
    }

   private:
    MemoryStore& store_;
    std::shared_ptr<const StoredObject> object_;
  };

  class Writer : public store::ObjectWriter {
   public:
    Writer(MemoryStore& store, std::string bucket, std::string key, std::string upload_id, int part)
        : store_(store),
          bucket_(std::move(bucket)),
          key_(std::move(key)),
          upload_id_(std::move(upload_id)),
          part_(part) {}
    Task<Result<void>> append(memory::Chunk chunk) override {
      if (store_.append_error) co_return fail(*std::exchange(store_.append_error, std::nullopt), "append");
      data_ += as_text(chunk.bytes);
      co_return Result<void>();
    }
    Task<Result<store::ObjectInfo>> commit(store::ObjectInfo info, store::CommitConditions conditions) override {
      if (store::stored_size(info) != data_.size()) co_return fail(Errc::internal, "commit: size");
      if (part_ != 0) {
        info.modified_us = store_.now_us += 1'000'000;
        VB_CO_ASSIGN(StoredUpload * upload, store_.find_upload(bucket_, key_, upload_id_));
        upload->parts[part_] = {info, std::move(data_)};
        co_return info;
      }
      VB_CO_ASSIGN(StoredBucket * bucket, store_.find(bucket_));
      VB_CO_TRY(store_.check(*bucket, key_, conditions));
      StoredObject object{std::move(info), std::move(data_)};
      co_return store_.add(*bucket, key_, std::move(object));
    }

   private:
    MemoryStore& store_;
    std::string bucket_, key_, upload_id_, data_;
    int part_;
  };

  Result<StoredBucket*> find(std::string_view name) {
    const auto it = buckets_.find(name);
    if (it == buckets_.end()) return fail(Errc::no_such_bucket);
    return &it->second;
  }
  // A delete marker, too.
  Result<std::shared_ptr<const StoredObject>> find_any(std::string_view bucket, std::string_view key,
                                                       std::string_view version_id) {
    VB_ASSIGN(StoredBucket * in, find(bucket));
    const auto it = in->objects.find(std::string(key));
    if (it == in->objects.end() || it->second.empty()) {
      return fail(version_id.empty() ? Errc::no_such_key : Errc::no_such_version);
    }
    if (version_id.empty()) return it->second.front();
    for (const auto& object : it->second) {
      const std::string& id = object->info.version_id;
      if (id == version_id || (id.empty() && version_id == "null")) return object;
    }
    return fail(Errc::no_such_version);
  }
  Result<std::shared_ptr<const StoredObject>> find_object(std::string_view bucket, std::string_view key,
                                                          std::string_view version_id = {}) {
    VB_ASSIGN(auto object, find_any(bucket, key, version_id));
    if (!object->info.delete_marker) return object;
    return fail(version_id.empty() ? Errc::no_such_key : Errc::method_not_allowed);
  }
  // The key's new newest version.
  store::ObjectInfo add(StoredBucket& bucket, const std::string& key, StoredObject object) {
    auto& all = bucket.objects[key];
    const auto versioning = bucket.info.versioning;
    const auto is_null = [](const auto& o) { return o->info.version_id.empty() || o->info.version_id == "null"; };
    if (versioning != store::Versioning::enabled) std::erase_if(all, is_null);
    object.info.modified_us = now_us += 1'000'000;
    object.info.version_id = versioning == store::Versioning::off ? ""
                             : versioning == store::Versioning::suspended
                                 ? "null"
                                 : fmt::format("version-{:04}", ++versions_made_);
    if (bucket.info.lock.mode != store::LockMode::none && object.info.lock.mode == store::LockMode::none) {
      object.info.lock.mode = bucket.info.lock.mode;
      object.info.lock.retain_until_us = now_us + int64_t{bucket.info.lock.period} * 86'400'000'000;
    }
    all.push_front(std::make_shared<const StoredObject>(std::move(object)));
    return all.front()->info;
  }
  Result<void> check_remove(const store::ObjectInfo& info, const store::RemoveRequest& request, bool current) const {
    const auto& c = request.conditions;
    if (c.if_match && *c.if_match != "*" && *c.if_match != info.etag) return fail(Errc::precondition_failed);
    if (c.if_size && *c.if_size != info.size) return fail(Errc::precondition_failed);
    if (c.if_modified_s && *c.if_modified_s != info.modified_us / 1'000'000) return fail(Errc::precondition_failed);
    if (c.if_modified_us && *c.if_modified_us != info.modified_us) return fail(Errc::precondition_failed);
    const bool retained = info.lock.mode != store::LockMode::none && !request.bypass_governance;
    if (!current && (info.lock.legal_hold || retained)) return fail(Errc::access_denied);
    return {};
  }
  Result<StoredUpload*> find_upload(std::string_view bucket, std::string_view key, std::string_view id) {
    VB_ASSIGN(StoredBucket * in, find(bucket));
    const auto it = in->uploads.find(std::string(id));
    if (it == in->uploads.end() || it->second.info.key != key) return fail(Errc::no_such_upload);
    return &it->second;
  }
  Result<void> check(const StoredBucket& bucket, const std::string& key, const store::CommitConditions& conditions) {
    const auto it = bucket.objects.find(key);
    const bool there = it != bucket.objects.end() && !it->second.empty() && !it->second.front()->info.delete_marker;
    const auto matches = [&](const std::string& tag) {
      return there && (tag == "*" || tag == it->second.front()->info.etag);
    };
    if (conditions.if_match && !there) return fail(Errc::no_such_key);
    if (conditions.if_match && !matches(*conditions.if_match)) return fail(Errc::precondition_failed);
    if (conditions.if_none_match && matches(*conditions.if_none_match)) return fail(Errc::precondition_failed);
    return {};
  }
  static store::ListPage list_page(const StoredBucket& bucket, const store::ListRequest& request) {
    store::ListPage page;
    for (const auto& [key, all] : bucket.objects) {
      if (all.empty() || all.front()->info.delete_marker) continue;
      const auto& object = all.front();
      if (!key.starts_with(request.prefix) || (key <= request.after && !request.after.empty())) continue;
      std::string name = key;
      bool is_prefix = false;
      if (!request.delimiter.empty()) {
        const size_t at = key.find(request.delimiter, request.prefix.size());
        is_prefix = at != std::string::npos;
        if (is_prefix) name = key.substr(0, at + request.delimiter.size());
      }
      if (is_prefix &&
          (name <= request.after || (!page.common_prefixes.empty() && page.common_prefixes.back() == name))) {
        continue;
      }
      if (static_cast<int>(page.entries.size() + page.common_prefixes.size()) == request.max_keys) {
        page.truncated = true;
        break;
      }
      if (is_prefix) {
        page.common_prefixes.push_back(name);
      } else {
        page.entries.push_back({key, object->info});
      }
      page.next_after = name;
    }
    return page;
  }

  memory::Arena& arena_;
  std::map<std::string, StoredBucket, std::less<>> buckets_;
  int uploads_made_ = 0, versions_made_ = 0;
};

}  // namespace verbena::s3::test
