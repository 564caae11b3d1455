// Support shared by the tests of all engines: plain calls into a store, and manipulations of an engine.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <random>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "store/store.h"

namespace verbena::store::conformance {

// Bytes that differ everywhere and depend on the seed.
inline std::string pattern(size_t size, uint64_t seed) {
  std::string bytes(size, '\0');
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < size; i += 8) {
    uint64_t v = random();
    std::memcpy(bytes.data() + i, &v, std::min<size_t>(8, size - i));
  }
  return bytes;
}

class TestClock final : public WallClock {
 public:
  int64_t now_us() const override { return now_.fetch_add(1'000'000) + 1'700'000'000'000'000; }
  void step(std::chrono::microseconds by) { now_ += by.count(); }

 private:
  mutable std::atomic<int64_t> now_{0};
};

class Rig {
 public:
  Rig() : arena_(std::move(*memory::Arena::create(64 * MiB))) {}
  virtual ~Rig() = default;
  Rig(const Rig&) = delete;

  virtual Store& engine() = 0;
  virtual Store& below() { return engine(); }  // without a hot tier in front
  virtual void open() = 0;
  // An orderly stop and a new start; does nothing for an engine whose data ends with its store.
  virtual void reopen() {}
  // Likewise after a power loss: data that was not made durable may be gone. `seed` chooses which.
  virtual void crash(uint64_t /*seed*/) {}
  // Bytes that the engine holds for objects and parts, once all removed ones are gone.
  virtual uint64_t live_bytes() = 0;
  // Whether something is held that no row names, or named that is not held.
  virtual bool leaks() = 0;
  virtual void expect_no_leak() { EXPECT_FALSE(leaks()); }
  // Before open(): chooses among the engine's options.
  virtual void vary(uint64_t /*seed*/) {}

  const WallClock& clock() const { return clock_; }
  virtual void step_clock(std::chrono::microseconds by) { clock_.step(by); }
  // Runs a task to its end on this thread.
  template <class T>
  T run(Task<T> task) {
    auto future = boost::asio::co_spawn(io_, std::move(task), boost::asio::use_future);
    io_.restart();
    io_.run();
    return future.get();
  }
  boost::asio::io_context& io() { return io_; }
  memory::Arena& arena() { return *arena_; }

  void make_bucket(const std::string& name, Durability durability = Durability::sync) {
    auto made = run(engine().create_bucket({.name = name, .created_us = 0, .owner = "root", .durability = durability}));
    ASSERT_TRUE(made) << describe(made.error());
  }

  memory::Chunk chunk(std::string_view bytes) {
    auto lease = arena_->lease(std::max<size_t>(bytes.size(), 1));
    EXPECT_TRUE(lease);
    std::memcpy(lease->data(), bytes.data(), bytes.size());
    Bytes view(lease->data(), bytes.size());
    return {std::move(*lease), view};
  }
  Result<void> append(ObjectWriter& writer, std::string_view bytes, size_t chunk_size = 1 * MiB) {
    for (size_t at = 0; at < bytes.size(); at += chunk_size) {
      VB_TRY(run(writer.append(chunk(bytes.substr(at, chunk_size)))));
    }
    return {};
  }

  struct How {
    CommitConditions conditions;
    size_t chunk_size = 1 * MiB;
    std::optional<uint64_t> size_hint;
    std::string etag;
  };
  Result<ObjectInfo> put(const std::string& bucket, const std::string& key, std::string_view bytes, How how) {
    VB_ASSIGN(auto writer, run(engine().create(bucket, key, how.size_hint)));
    const bool tells_crc = writer->crc32c().has_value();
    VB_TRY(append(*writer, bytes, how.chunk_size));
    if (tells_crc) EXPECT_EQ(writer->crc32c(), crc32c(as_bytes(bytes)));
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = how.etag.empty() ? etag_of(bytes) : how.etag;
    return run(writer->commit(std::move(info), how.conditions));
  }
  Result<ObjectInfo> put(const std::string& bucket, const std::string& key, std::string_view bytes) {
    return put(bucket, key, bytes, How{});
  }
  static std::string etag_of(std::string_view bytes) {
    return std::to_string(bytes.size()) + "-" + std::to_string(crc32c(as_bytes(bytes)));
  }

  Result<std::string> read(ObjectReader& reader, uint64_t offset, uint64_t length) {
    std::string bytes;
    while (bytes.size() < length) {
      size_t n = std::min<uint64_t>(length - bytes.size(), ObjectReader::chunk_size_max);
      VB_ASSIGN(memory::Chunk chunk, run(reader.read(offset + bytes.size(), n)));
      bytes += as_text(chunk.bytes);
    }
    return bytes;
  }
  Result<std::string> get(const std::string& bucket, const std::string& key) {
    VB_ASSIGN(auto reader, run(engine().open(bucket, key)));
    return read(*reader, 0, reader->info().size);
  }
  Result<std::string> get_version(const std::string& bucket, const std::string& key, const std::string& version_id) {
    VB_ASSIGN(auto reader, run(engine().open(bucket, key, version_id)));
    return read(*reader, 0, reader->info().size);
  }
  Result<Removed> remove(const std::string& bucket, const std::string& key, CommitConditions conditions = {}) {
    return run(engine().remove(bucket, key, {.version_id = {}, .conditions = std::move(conditions)}));
  }
  Result<Removed> remove_version(const std::string& bucket, const std::string& key, const std::string& version_id,
                                 bool bypass_governance = false) {
    return run(engine().remove(bucket, key,
                               {.version_id = version_id, .conditions = {}, .bypass_governance = bypass_governance}));
  }
  Result<void> set_versioning(const std::string& bucket, Versioning versioning) {
    return run(engine().set_versioning(bucket, versioning));
  }
  Result<VersionPage> list_versions(const std::string& bucket, ListVersionsRequest request = {}) {
    return run(engine().list_versions(bucket, std::move(request)));
  }
  // All versions from the request's marker on; a page may be short because its moment was lost.
  Result<std::vector<VersionEntry>> all_versions(const std::string& bucket, ListVersionsRequest request = {}) {
    std::vector<VersionEntry> all;
    for (bool more = true; more;) {
      VB_ASSIGN(VersionPage page, list_versions(bucket, request));
      std::ranges::move(page.versions, std::back_inserter(all));
      more = page.truncated;
      request.key_marker = page.next_key_marker;
      request.version_id_marker = page.next_version_id_marker;
    }
    return all;
  }
  Result<ListPage> list(const std::string& bucket, ListRequest request = {}) {
    return run(engine().list(bucket, std::move(request)));
  }

  Result<Usage> usage(const std::string& bucket) { return run(engine().bucket_usage(bucket)); }
  // The usage, counted by listing everything.
  Result<Usage> usage_by_listing(const std::string& bucket) {
    Usage usage;
    VB_ASSIGN(const auto versions, all_versions(bucket));
    for (const VersionEntry& entry : versions) count_version(entry, usage);
    VB_ASSIGN(const UploadPage uploads, run(engine().list_uploads(bucket, {})));
    for (const UploadInfo& upload : uploads.uploads) {
      ++usage.uploads;
      VB_ASSIGN(const PartPage parts, run(engine().list_parts(bucket, upload.key, upload.upload_id, 0, 10'000)));
      for (const PartInfo& part : parts.parts) usage.upload_bytes += part.size;
    }
    return usage;
  }

  Result<void> set_document(const std::string& bucket, const std::string& name, const std::string& bytes) {
    return run(engine().set_document(bucket, name, bytes));
  }
  Result<std::string> document(const std::string& bucket, const std::string& name) {
    VB_ASSIGN(Document found, run(engine().document(bucket, name)));
    return *found;
  }

  Result<PartInfo> put_part(const UploadInfo& upload, int number, std::string_view bytes) {
    VB_ASSIGN(auto writer,
              run(engine().create_part(upload.bucket, upload.key, upload.upload_id, number, bytes.size())));
    VB_TRY(append(*writer, bytes));
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = etag_of(bytes);
    VB_TRY(run(writer->commit(info, {})));
    return PartInfo{number, info.size, info.etag, 0, {}};
  }
  Result<UploadInfo> start_upload(const std::string& bucket, const std::string& key) {
    UploadInfo upload;
    upload.bucket = bucket;
    upload.key = key;
    upload.owner = "root";
    return run(engine().create_upload(upload));
  }
  Result<ObjectInfo> complete(const UploadInfo& upload, std::vector<PartInfo> parts, CommitConditions conditions = {}) {
    ObjectInfo info;
    info.etag = "multi-" + std::to_string(parts.size());
    return run(
        engine().complete_upload(upload.bucket, upload.key, upload.upload_id, std::move(parts), info, conditions));
  }

 private:
  static void count_version(const VersionEntry& entry, Usage& usage) {
    if (entry.info.delete_marker) {
      ++usage.delete_markers;
    } else if (entry.latest) {
      ++usage.objects;
      usage.bytes += entry.info.size;
    } else {
      ++usage.versions;
      usage.version_bytes += entry.info.size;
    }
  }

 protected:
  TestClock clock_;
  std::unique_ptr<memory::Arena> arena_;
  boost::asio::io_context io_;
};

}  // namespace verbena::store::conformance
