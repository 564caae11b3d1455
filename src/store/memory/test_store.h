// For tests above the store: the memory engine with faults on demand, a clock of its own and plain calls.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/logic/keys.h"
#include "store/memory/memory_store.h"
#include "store/whole_put.h"

namespace verbena::store::in_memory {

// Stands still except for one second at each object, part and removal.
class SteppingClock final : public WallClock {
 public:
  int64_t now_us() const override { return now.load(); }
  void step() { now += 1'000'000; }
  std::atomic<int64_t> now{1'767'323'045'678'000};  // 2026-01-02T03:04:05.678Z
};

// A base class, so that the clock exists before the engine that uses it.
struct HasClock {
  SteppingClock clock;
};

class TestStore : private HasClock, public MemoryStore {
 public:
  explicit TestStore(memory::Arena& arena) : MemoryStore({.arena = &arena, .clock = &clock}), arena_(arena) {}

  std::optional<uint64_t> rot_at;                // reads that touch this offset are corrupt
  std::optional<Errc> append_error;              // the next append fails so
  std::function<bool(std::string_view)> is_hot;  // keys whose objects are in memory; empty: none
  std::atomic<size_t> writers_made{0};           // of objects, by create()
  std::atomic<size_t> listed{0};                 // buckets in answers of buckets_of() and buckets()
  std::function<Task<>()> before_update;         // called once, between the request for a change and the change
  // Likewise for an upload: before its parts are read, and before it is completed.
  std::function<void()> before_parts, before_completion;
  std::optional<Errc> completion_error;           // the next completion fails so
  std::function<void()> before_replacement;       // likewise, before a conditional replacement of a document
  std::function<void()> while_written;            // called once, when bytes of an object or a part arrive
  std::function<void()> while_removed;            // called once, when an object is removed
  size_t bucket_removals_refused = 0;             // so many removals of buckets are still to fail with slow_down
  std::function<Task<>()> before_bucket_removal;  // called once
  std::function<void()> after_missing_bucket;     // called once, after a look-up that found no bucket of the name
  std::function<void()> before_bucket_change;     // called once, before a document or a property of a bucket is changed
  std::function<void()> before_look_up;           // called once, between the request for an object and its look-up
  int64_t now_us() const { return clock.now_us(); }

  Task<Result<std::vector<BucketInfo>>> buckets_of(OwnersBuckets which) override {
    VB_CO_ASSIGN(auto page, co_await MemoryStore::buckets_of(std::move(which)));
    listed += page.size();
    co_return page;
  }
  Task<Result<std::vector<BucketInfo>>> buckets() override {
    VB_CO_ASSIGN(auto all, co_await MemoryStore::buckets());
    listed += all.size();
    co_return all;
  }
  Task<Result<void>> remove_bucket(NamedBucket bucket) override {
    if (const auto happens = std::exchange(before_bucket_removal, nullptr)) co_await happens();
    if (bucket_removals_refused > 0) {
      --bucket_removals_refused;
      co_return fail(Errc::slow_down, "remove_bucket");
    }
    co_return co_await MemoryStore::remove_bucket(std::move(bucket));
  }
  Task<Result<std::shared_ptr<ObjectReader>>> open(std::string_view bucket, std::string_view key,
                                                   std::string_view version_id) override {
    if (const auto happens = std::exchange(before_look_up, nullptr)) happens();
    if (auto instead = tampered({std::string(bucket), std::string(key)})) {
      std::shared_ptr<ObjectReader> other = std::make_shared<TamperedReader>(arena_, std::move(*instead));
      co_return other;
    }
    VB_CO_ASSIGN(auto reader, co_await MemoryStore::open(bucket, key, version_id));
    std::shared_ptr<ObjectReader> rotten = std::make_shared<Reader>(*this, std::move(reader));
    co_return rotten;
  }
  std::shared_ptr<ObjectReader> hot(std::string_view bucket, std::string_view key) override {
    if (!is_hot || !is_hot(key)) return nullptr;
    auto stored = run(object_task(std::string(bucket), std::string(key)));
    return stored ? std::make_shared<HotReader>(arena_, std::move(*stored)) : nullptr;
  }
  Task<Result<ObjectInfo>> stat(std::string_view bucket, std::string_view key, std::string_view version_id) override {
    if (const auto happens = std::exchange(before_look_up, nullptr)) happens();
    if (const auto instead = tampered({std::string(bucket), std::string(key)})) co_return instead->info;
    co_return co_await MemoryStore::stat(bucket, key, version_id);
  }
  Task<Result<std::unique_ptr<ObjectWriter>>> create(std::string_view bucket, std::string_view key,
                                                     std::optional<uint64_t> size_hint) override {
    const Name name{bucket, key};
    ++writers_made;
    VB_CO_ASSIGN(auto writer, co_await MemoryStore::create(bucket, key, size_hint));
    std::unique_ptr<ObjectWriter> faulty = std::make_unique<Writer>(*this, std::move(writer), name);
    co_return faulty;
  }
  bool put_whole(WholePut& put) override {
    if (append_error) return false;
    clock.step();
    replaced(Name{put.bucket, put.key});
    return MemoryStore::put_whole(put);
  }
  Task<Result<std::unique_ptr<ObjectWriter>>> create_part(std::string_view bucket, std::string_view key,
                                                          std::string_view upload_id, int number,
                                                          std::optional<uint64_t> size_hint) override {
    VB_CO_ASSIGN(auto writer, co_await MemoryStore::create_part(bucket, key, upload_id, number, size_hint));
    std::unique_ptr<ObjectWriter> faulty = std::make_unique<Writer>(*this, std::move(writer), std::nullopt);
    co_return faulty;
  }
  Task<Result<Removed>> remove(std::string_view bucket, std::string_view key, RemoveRequest request) override {
    if (const auto happens = std::exchange(while_removed, nullptr)) happens();
    clock.step();
    replaced(Name{bucket, key});
    return MemoryStore::remove(bucket, key, std::move(request));
  }
  Task<Result<ObjectInfo>> complete_upload(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                           std::vector<PartInfo> parts, ObjectInfo info,
                                           CommitConditions conditions) override {
    if (const auto happens = std::exchange(before_completion, nullptr)) happens();
    if (const auto error = std::exchange(completion_error, std::nullopt)) co_return fail(*error, "complete_upload");
    clock.step();
    replaced(Name{bucket, key});
    co_return co_await MemoryStore::complete_upload(bucket, key, upload_id, std::move(parts), std::move(info),
                                                    std::move(conditions));
  }
  Task<Result<BucketAndDocuments>> bucket_and_documents(std::string_view bucket,
                                                        std::span<const std::string_view> names) override {
    auto found = co_await MemoryStore::bucket_and_documents(bucket, names);
    if (found || found.error() != Errc::no_such_bucket) co_return found;
    if (const auto happens = std::exchange(after_missing_bucket, nullptr)) happens();
    co_return found;
  }
  Task<Result<void>> set_document(NamedBucket bucket, std::string_view name, std::string bytes) override {
    if (const auto happens = std::exchange(before_bucket_change, nullptr)) happens();
    return MemoryStore::set_document(std::move(bucket), name, std::move(bytes));
  }
  Task<Result<void>> remove_document(NamedBucket bucket, std::string_view name) override {
    if (const auto happens = std::exchange(before_bucket_change, nullptr)) happens();
    return MemoryStore::remove_document(std::move(bucket), name);
  }
  Task<Result<void>> set_versioning(NamedBucket bucket, Versioning versioning) override {
    if (const auto happens = std::exchange(before_bucket_change, nullptr)) happens();
    return MemoryStore::set_versioning(std::move(bucket), versioning);
  }
  Task<Result<void>> replace_document(NamedBucket bucket, std::string_view name, Document was,
                                      std::string bytes) override {
    if (const auto happens = std::exchange(before_replacement, nullptr)) happens();
    return MemoryStore::replace_document(std::move(bucket), name, std::move(was), std::move(bytes));
  }
  Task<Result<PartPage>> list_parts(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                    int after_part, int max_parts) override {
    if (const auto happens = std::exchange(before_parts, nullptr)) happens();
    return MemoryStore::list_parts(bucket, key, upload_id, after_part, max_parts);
  }
  Task<Result<ObjectInfo>> update(std::string_view bucket, std::string_view key, std::string_view version_id,
                                  ObjectChange change) override {
    if (const auto happens = std::exchange(before_update, nullptr)) co_await happens();
    co_return co_await MemoryStore::update(bucket, key, version_id, std::move(change));
  }

  // Plain calls, from any thread.

  void make_bucket(const std::string& name) { (void)run(create_bucket({.name = name, .owner = "root"})); }
  // The bucket, which is empty, is removed, and another one has its name.
  void replace_bucket(const std::string& name, const std::string& owner) {
    (void)run(remove_bucket(name));
    (void)run(create_bucket({.name = name, .owner = owner}));
  }
  void put(const std::string& bucket, const std::string& key, std::string_view bytes) {
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = "etag-" + key.substr(0, 20);
    (void)run(put_task(bucket, key, bytes, std::move(info)));
  }
  // A row of the index that does not decode.
  void damage_row(Table table, const std::string& row) {
    auto judge = [table, row](Transaction& rows) -> Result<void> {
      rows.put(table, row, "\xff\xff");
      return {};
    };
    (void)run(context()->rows->commit({.judge = std::move(judge), .bucket = nullptr, .place = {}}));
  }
  void damage_object(const std::string& bucket, const std::string& key) {
    damage_row(Table::objects, store::keys::object(context()->buckets.find(bucket)->id, key));
  }
  bool contains(const std::string& bucket, const std::string& key) { return run(stat(bucket, key, {})).has_value(); }
  void clear(const std::string& bucket) {
    for (const std::string& key : keys(bucket)) (void)run(remove(bucket, key, {}));
  }
  size_t count(const std::string& bucket) { return keys(bucket).size(); }
  void document(const std::string& bucket, const std::string& name, std::string bytes) {
    (void)run(set_document(bucket, name, std::move(bytes)));
  }
  void forget_document(const std::string& bucket, const std::string& name) { (void)run(remove_document(bucket, name)); }
  using MemoryStore::document;

  // The stored form of a key's current object.
  struct Stored {
    ObjectInfo info;
    std::string data;
  };
  Stored object(const std::string& bucket, const std::string& key) { return run(object_task(bucket, key)).value(); }
  // Likewise, to be altered: open() and stat() return it until the key is written or removed.
  Stored& tamper(const std::string& bucket, const std::string& key) {
    const auto [at, is_new] = tampered_.try_emplace({bucket, key});
    if (is_new) at->second = run(object_task(bucket, key)).value();
    return at->second;
  }

 private:
  using Name = std::pair<std::string, std::string>;  // bucket, key

  class Reader final : public ObjectReader {
   public:
    Reader(TestStore& store, std::shared_ptr<ObjectReader> reader) : store_(store), reader_(std::move(reader)) {}
    const ObjectInfo& info() const override { return reader_->info(); }
    Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override {
      const auto rot = store_.rot_at;
      if (rot && *rot >= offset && *rot < offset + length) co_return fail(Errc::corrupt_object, "block");
      co_return co_await reader_->read(offset, length);
    }

   private:
    TestStore& store_;
    const std::shared_ptr<ObjectReader> reader_;
  };

  class TamperedReader : public ObjectReader {
   public:
    TamperedReader(memory::Arena& arena, Stored object)
        : object_(std::make_shared<const Stored>(std::move(object))), arena_(arena) {}
    const ObjectInfo& info() const override { return object_->info; }
    Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override {
      VB_CO_ASSIGN(memory::Lease lease, arena_.lease(length));
      std::memcpy(lease.data(), object_->data.data() + offset, length);
      const Bytes bytes(lease.data(), length);
      co_return memory::Chunk{std::move(lease), bytes};
    }

   protected:
    const std::shared_ptr<const Stored> object_;

   private:
    memory::Arena& arena_;
  };

  class HotReader final : public TamperedReader {
   public:
    using TamperedReader::TamperedReader;
    memory::Chunk peek(uint64_t offset, uint64_t length) const override {
      return {.lease = {}, .bytes = as_bytes(object_->data).subspan(offset, length), .shared = object_, .charge = {}};
    }
    // For every other size, so that both paths of callers are tested.
    Bytes view(uint64_t offset, uint64_t length) const override {
      return object_->data.size() % 2 == 0 ? as_bytes(object_->data).subspan(offset, length) : Bytes();
    }
  };

  class Writer final : public ObjectWriter {
   public:
    // `name`: of the object; none for a part.
    Writer(TestStore& store, std::unique_ptr<ObjectWriter> writer, std::optional<Name> name)
        : store_(store), writer_(std::move(writer)), name_(std::move(name)) {}
    Task<Result<void>> append(memory::Chunk chunk) override {
      if (const auto happens = std::exchange(store_.while_written, nullptr)) happens();
      if (store_.append_error) co_return fail(*std::exchange(store_.append_error, std::nullopt), "append");
      co_return co_await writer_->append(std::move(chunk));
    }
    Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions conditions) override {
      store_.clock.step();
      if (name_) store_.replaced(*name_);
      co_return co_await writer_->commit(std::move(info), std::move(conditions));
    }

   private:
    TestStore& store_;
    const std::unique_ptr<ObjectWriter> writer_;
    const std::optional<Name> name_;
  };

  std::vector<std::string> keys(const std::string& bucket) {
    std::vector<std::string> found;
    ListPage page;
    do {
      page = run(list(bucket, {.prefix = {}, .delimiter = {}, .after = page.next_after})).value();
      for (ListEntry& entry : page.entries) found.push_back(std::move(entry.key));
    } while (page.truncated);
    return found;
  }
  Task<Result<void>> put_task(std::string bucket, std::string key, std::string_view bytes, ObjectInfo info) {
    VB_CO_ASSIGN(auto writer, co_await create(bucket, key, bytes.size()));
    for (size_t at = 0; at < bytes.size(); at += ObjectReader::chunk_size_max) {
      const auto piece = bytes.substr(at, ObjectReader::chunk_size_max);
      memory::Chunk chunk{{}, as_bytes(piece), std::make_shared<const char>()};
      VB_CO_TRY(co_await writer->append(std::move(chunk)));
    }
    CommitConditions none;
    VB_CO_TRY(co_await writer->commit(std::move(info), std::move(none)));
    co_return Result<void>{};
  }
  Task<Result<Stored>> object_task(std::string bucket, std::string key) {
    VB_CO_ASSIGN(auto reader, co_await MemoryStore::open(bucket, key, std::string_view()));
    Stored stored{reader->info(), {}};
    const uint64_t size = stored_size(stored.info);
    while (stored.data.size() < size) {
      const size_t n = std::min<uint64_t>(size - stored.data.size(), ObjectReader::chunk_size_max);
      VB_CO_ASSIGN(memory::Chunk chunk, co_await reader->read(stored.data.size(), n));
      stored.data += as_text(chunk.bytes);
    }
    co_return stored;
  }
  // Several cores may use the store.
  std::optional<Stored> tampered(const Name& name) {
    const std::lock_guard lock(tampered_mutex_);
    const auto found = tampered_.find(name);
    return found == tampered_.end() ? std::nullopt : std::optional(found->second);
  }
  void replaced(const Name& name) {
    const std::lock_guard lock(tampered_mutex_);
    tampered_.erase(name);
  }

  memory::Arena& arena_;
  std::mutex tampered_mutex_;
  std::map<Name, Stored> tampered_;

  template <class T>
  static T run(Task<T> task) {
    boost::asio::io_context io;
    auto future = boost::asio::co_spawn(io, std::move(task), boost::asio::use_future);
    io.run();
    return future.get();
  }
};

}  // namespace verbena::store::in_memory
