// For tests: a store in memory, and what else a door needs around it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "store/store.h"

namespace verbena::native {

class TestStore final : public store::Store {
 public:
  explicit TestStore(memory::Arena& arena) : arena_(arena) {}

  struct Object {
    store::ObjectInfo info;
    std::string bytes;
  };
  std::map<std::string, std::map<std::string, std::shared_ptr<Object>>> objects;  // bucket -> key -> object
  std::map<std::string, store::Document> documents;                               // of every bucket
  std::mutex mutex;
  std::optional<uint64_t> rot_at;                // reads that touch this offset find damage
  std::function<bool(std::string_view)> is_hot;  // which keys lie in memory; empty: none

  void put(const std::string& bucket, const std::string& key, std::string bytes) {
    auto object = std::make_shared<Object>();
    object->info.size = bytes.size();
    object->info.etag = "etag-" + key;
    object->info.modified_us = 1'700'000'000'000'000;
    object->bytes = std::move(bytes);
    std::lock_guard lock(mutex);
    objects[bucket][key] = object;
  }

  Task<Result<void>> create_bucket(store::BucketInfo bucket) override {
    std::lock_guard lock(mutex);
    objects[bucket.name];
    co_return Result<void>{};
  }
  Task<Result<store::BucketInfo>> bucket(std::string_view name) override {
    std::lock_guard lock(mutex);
    if (!objects.contains(std::string(name))) co_return fail(Errc::no_such_bucket);
    store::BucketInfo info;
    info.name = name;
    co_return info;
  }
  Task<Result<void>> set_durability(std::string_view, store::Durability) override { co_return Result<void>{}; }
  Task<Result<void>> set_versioning(std::string_view, store::Versioning) override {
    co_return fail(Errc::not_implemented);
  }
  Task<Result<void>> set_lock(std::string_view, store::BucketLock) override { co_return fail(Errc::not_implemented); }
  Task<Result<void>> remove_bucket(std::string_view) override { co_return fail(Errc::not_implemented); }
  Task<Result<std::vector<store::BucketInfo>>> buckets() override { co_return fail(Errc::not_implemented); }

  Task<Result<store::Document>> document(std::string_view, std::string_view name) override {
    std::lock_guard lock(mutex);
    const auto found = documents.find(std::string(name));
    if (found == documents.end()) co_return fail(Errc::not_found);
    co_return found->second;
  }
  Task<Result<void>> set_document(std::string_view, std::string_view, std::string) override {
    co_return fail(Errc::not_implemented);
  }
  Task<Result<void>> remove_document(std::string_view, std::string_view) override {
    co_return fail(Errc::not_implemented);
  }

  Task<Result<std::shared_ptr<store::ObjectReader>>> open(std::string_view bucket, std::string_view key,
                                                          std::string_view) override {
    VB_CO_ASSIGN(auto object, find(bucket, key));
    co_return std::make_shared<Reader>(*this, std::move(object));
  }
  std::shared_ptr<store::ObjectReader> hot(std::string_view bucket, std::string_view key) override {
    if (!is_hot || !is_hot(key)) return nullptr;
    auto object = find(bucket, key);
    return object ? std::make_shared<Reader>(*this, std::move(*object), true) : nullptr;
  }
  Task<Result<store::ObjectInfo>> find_version(std::string_view bucket, std::string_view key,
                                               std::string_view) override {
    VB_CO_ASSIGN(auto object, find(bucket, key));
    co_return object->info;
  }
  Task<Result<store::ObjectInfo>> update(std::string_view, std::string_view, std::string_view,
                                         store::ObjectChange) override {
    co_return fail(Errc::not_implemented);
  }
  Task<Result<store::VersionPage>> list_versions(std::string_view, store::ListVersionsRequest) override {
    co_return fail(Errc::not_implemented);
  }
  Task<Result<store::ObjectInfo>> stat(std::string_view bucket, std::string_view key, std::string_view) override {
    VB_CO_ASSIGN(auto object, find(bucket, key));
    co_return object->info;
  }
  Task<Result<std::unique_ptr<store::ObjectWriter>>> create(std::string_view bucket, std::string_view key,
                                                            std::optional<uint64_t>) override {
    std::lock_guard lock(mutex);
    if (!objects.contains(std::string(bucket))) co_return fail(Errc::no_such_bucket);
    co_return std::make_unique<Writer>(*this, std::string(bucket), std::string(key));
  }
  Task<Result<store::Removed>> remove(std::string_view bucket, std::string_view key, store::RemoveRequest) override {
    std::lock_guard lock(mutex);
    auto it = objects.find(std::string(bucket));
    if (it == objects.end()) co_return fail(Errc::no_such_bucket);
    it->second.erase(std::string(key));
    co_return store::Removed{};
  }
  Task<Result<store::ListPage>> list(std::string_view bucket, store::ListRequest request) override {
    std::lock_guard lock(mutex);
    auto it = objects.find(std::string(bucket));
    if (it == objects.end()) co_return fail(Errc::no_such_bucket);
    store::ListPage page;
    for (const auto& [key, object] : it->second) {
      if (!key.starts_with(request.prefix) || key <= request.after) continue;
      if (static_cast<int>(page.entries.size()) == request.max_keys) {
        page.truncated = true;
        break;
      }
      page.entries.push_back({key, object->info});
      page.next_after = key;
    }
    co_return page;
  }

  Task<Result<store::UploadInfo>> create_upload(store::UploadInfo) override { co_return fail(Errc::not_implemented); }
  Task<Result<store::UploadInfo>> upload(std::string_view, std::string_view, std::string_view) override {
    co_return fail(Errc::not_implemented);
  }
  Task<Result<std::unique_ptr<store::ObjectWriter>>> create_part(std::string_view, std::string_view, std::string_view,
                                                                 int, std::optional<uint64_t>) override {
    co_return fail(Errc::not_implemented);
  }
  Task<Result<store::PartPage>> list_parts(std::string_view, std::string_view, std::string_view, int, int) override {
    co_return fail(Errc::not_implemented);
  }
  Task<Result<store::UploadPage>> list_uploads(std::string_view, store::ListUploadsRequest) override {
    co_return fail(Errc::not_implemented);
  }
  Task<Result<store::ObjectInfo>> complete_upload(std::string_view, std::string_view, std::string_view,
                                                  std::vector<store::PartInfo>, store::ObjectInfo,
                                                  store::CommitConditions) override {
    co_return fail(Errc::not_implemented);
  }
  Task<Result<void>> abort_upload(std::string_view, std::string_view, std::string_view) override {
    co_return fail(Errc::not_implemented);
  }

 private:
  class Reader final : public store::ObjectReader {
   public:
    Reader(TestStore& store, std::shared_ptr<Object> object, bool hot = false)
        : store_(store), object_(std::move(object)), hot_(hot) {}
    memory::Chunk peek(uint64_t offset, uint64_t length) const override {
      if (!hot_) return {};
      return {.lease = {}, .bytes = as_bytes(object_->bytes).subspan(offset, length), .shared = object_, .grant = {}};
    }
    const store::ObjectInfo& info() const override { return object_->info; }
    Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override {
      if (store_.rot_at && *store_.rot_at >= offset && *store_.rot_at < offset + length) {
        co_return fail(Errc::corrupt_object, "test");
      }
      VB_CO_ASSIGN(auto lease, store_.arena_.lease(std::max<size_t>(1, length)));
      std::memcpy(lease.data(), object_->bytes.data() + offset, length);
      const Bytes bytes(lease.data(), length);
      co_return memory::Chunk{std::move(lease), bytes};
    }

   private:
    TestStore& store_;
    std::shared_ptr<Object> object_;
    bool hot_;
  };

  class Writer final : public store::ObjectWriter {
   public:
    Writer(TestStore& store, std::string bucket, std::string key)
        : store_(store), bucket_(std::move(bucket)), key_(std::move(key)) {}
    Task<Result<void>> append(memory::Chunk chunk) override {
      bytes_ += as_text(chunk.bytes);
      co_return Result<void>{};
    }
    Task<Result<store::ObjectInfo>> commit(store::ObjectInfo info, store::CommitConditions conditions) override {
      std::lock_guard lock(store_.mutex);
      auto& bucket = store_.objects[bucket_];
      if (conditions.if_none_match == "*" && bucket.contains(key_)) co_return fail(Errc::precondition_failed);
      auto object = std::make_shared<Object>();
      info.modified_us = 1'700'000'000'000'000;
      object->info = info;
      object->bytes = std::move(bytes_);
      bucket[key_] = object;
      co_return info;
    }

   private:
    TestStore& store_;
    std::string bucket_, key_, bytes_;
  };

  Result<std::shared_ptr<Object>> find(std::string_view bucket, std::string_view key) {
    std::lock_guard lock(mutex);
    auto found = objects.find(std::string(bucket));
    if (found == objects.end()) return fail(Errc::no_such_bucket);
    auto object = found->second.find(std::string(key));
    if (object == found->second.end()) return fail(Errc::no_such_key);
    return object->second;
  }

  memory::Arena& arena_;
};

}  // namespace verbena::native
