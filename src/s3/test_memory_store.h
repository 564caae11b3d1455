// For tests: a store in memory that keeps store.h's promises, with a knob for rot.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

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
  std::map<std::string, std::shared_ptr<const StoredObject>> objects;
  std::map<std::string, StoredUpload> uploads;  // by upload id
  std::map<std::string, store::Document, std::less<>> documents;
};

class MemoryStore : public store::Store {
 public:
  explicit MemoryStore(memory::Arena& arena) : arena_(arena) {}

  std::optional<uint64_t> rot_at;          // reads that touch this offset are corrupt
  std::optional<Errc> append_error;        // the next append fails so
  int64_t now_us = 1'767'323'045'678'000;  // 2026-01-02T03:04:05.678Z; each commit is a second later

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

  Task<Result<std::shared_ptr<store::ObjectReader>>> open(std::string_view bucket, std::string_view key) override {
    VB_CO_ASSIGN(auto object, find_object(bucket, key));
    co_return std::make_shared<Reader>(*this, object);
  }
  Task<Result<store::ObjectInfo>> stat(std::string_view bucket, std::string_view key) override {
    VB_CO_ASSIGN(auto object, find_object(bucket, key));
    co_return object->info;
  }
  Task<Result<std::unique_ptr<store::ObjectWriter>>> create(std::string_view bucket, std::string_view key,
                                                            std::optional<uint64_t>) override {
    VB_CO_TRY(find(bucket));
    co_return std::make_unique<Writer>(*this, std::string(bucket), std::string(key), "", 0);
  }
  Task<Result<void>> remove(std::string_view bucket, std::string_view key,
                            store::CommitConditions conditions) override {
    VB_CO_ASSIGN(StoredBucket * found, find(bucket));
    VB_CO_TRY(check(*found, std::string(key), conditions));
    found->objects.erase(std::string(key));
    co_return Result<void>();
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
      page.parts.push_back({it->first, info.size, info.etag, info.modified_us, info.checksums});
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
    auto object = std::make_shared<StoredObject>();
    for (const auto& part : parts) {
      const auto stored = found->parts.find(part.number);
      if (stored == found->parts.end() || stored->second.info.etag != part.etag) co_return fail(Errc::invalid_part);
      object->data += stored->second.data;
    }
    info.size = object->data.size();
    info.parts = std::move(parts);
    info.modified_us = now_us += 1'000'000;
    object->info = info;
    StoredBucket& in = *find(bucket).value();
    VB_CO_TRY(check(in, std::string(key), conditions));
    in.objects[std::string(key)] = std::move(object);
    in.uploads.erase(std::string(id));
    co_return info;
  }
  Task<Result<void>> abort_upload(std::string_view bucket, std::string_view key, std::string_view id) override {
    VB_CO_TRY(find_upload(bucket, key, id));
    find(bucket).value()->uploads.erase(std::string(id));
    co_return Result<void>();
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
      if (info.size != data_.size()) co_return fail(Errc::internal, "commit: size");
      info.modified_us = store_.now_us += 1'000'000;
      if (part_ != 0) {
        VB_CO_ASSIGN(StoredUpload * upload, store_.find_upload(bucket_, key_, upload_id_));
        upload->parts[part_] = {info, std::move(data_)};
        co_return info;
      }
      VB_CO_ASSIGN(StoredBucket * bucket, store_.find(bucket_));
      VB_CO_TRY(store_.check(*bucket, key_, conditions));
      bucket->objects[key_] = std::make_shared<const StoredObject>(StoredObject{info, std::move(data_)});
      co_return info;
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
  Result<std::shared_ptr<const StoredObject>> find_object(std::string_view bucket, std::string_view key) {
    VB_ASSIGN(StoredBucket * in, find(bucket));
    const auto it = in->objects.find(std::string(key));
    if (it == in->objects.end()) return fail(Errc::no_such_key);
    return it->second;
  }
  Result<StoredUpload*> find_upload(std::string_view bucket, std::string_view key, std::string_view id) {
    VB_ASSIGN(StoredBucket * in, find(bucket));
    const auto it = in->uploads.find(std::string(id));
    if (it == in->uploads.end() || it->second.info.key != key) return fail(Errc::no_such_upload);
    return &it->second;
  }
  Result<void> check(const StoredBucket& bucket, const std::string& key, const store::CommitConditions& conditions) {
    const auto it = bucket.objects.find(key);
    const bool there = it != bucket.objects.end();
    const auto matches = [&](const std::string& tag) { return there && (tag == "*" || tag == it->second->info.etag); };
    if (conditions.if_match && !there) return fail(Errc::no_such_key);
    if (conditions.if_match && !matches(*conditions.if_match)) return fail(Errc::precondition_failed);
    if (conditions.if_none_match && matches(*conditions.if_none_match)) return fail(Errc::precondition_failed);
    return {};
  }
  static store::ListPage list_page(const StoredBucket& bucket, const store::ListRequest& request) {
    store::ListPage page;
    for (const auto& [key, object] : bucket.objects) {
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
  int uploads_made_ = 0;
};

}  // namespace verbena::s3::test
