// The hot tier in front of any engine: a store that keeps hot objects in registered memory.
//
// Read-through: an object that is read whole, in chunks, enters the tier. Write-through: so do the received bytes of a
// PUT, without a copy. Objects above a size, and ranges of objects that are not in memory, bypass it. Every change of a
// key goes through here and drops the cached object before the engine makes the change (cache/hot_tier.h). If other
// processes change keys too, a cached object is served only if the engine confirms that it is current, or while this
// process holds a read lease on its key (store/shared_keys.h).
#pragma once

#include "base/clock.h"
#include "cache/hot_tier.h"
#include "store/ends.h"
#include "store/shared_keys.h"
#include "store/store.h"

namespace verbena::store {

class HotObject;
class KeptObjects;

class HotStore final : public Store, public EndIndex, private SharedKeys::Listener {
 public:
  struct Options {
    memory::Arena* arena = nullptr;  // the tier makes room when it refuses leases
    size_t capacity = 0;             // bytes of the arena
    uint64_t object_size_max = 16 * MiB;
    SharedKeys* shared = nullptr;  // of `below`, if other processes change its keys too; else null
    const WallClock* clock = &system_clock();
    uint32_t keep_after = 4;  // successful checks before a read lease on the key is requested
  };
  // `below` and the arena must outlive it. No request may be in progress when it is destroyed.
  HotStore(Store& below, Options options);
  ~HotStore() override;

  const cache::HotTier& tier() const { return *tier_; }

  // Requests with a version id bypass the tier, which has current objects only.
  Task<Result<std::shared_ptr<ObjectReader>>> open(std::string_view bucket, std::string_view key,
                                                   std::string_view version_id = {}) override;
  std::shared_ptr<ObjectReader> hot(std::string_view bucket, std::string_view key) override;
  void hot_many(std::span<HotLookup> lookups) override;
  void hot_sizes(const cache::KeyRun& keys, std::span<uint64_t> sizes) override;
  Task<Result<ObjectInfo>> stat(std::string_view bucket, std::string_view key,
                                std::string_view version_id = {}) override;
  Task<Result<std::unique_ptr<ObjectWriter>>> create(std::string_view bucket, std::string_view key,
                                                     std::optional<uint64_t> size_hint) override;
  uint64_t whole_put_max() const override { return below_.whole_put_max(); }
  bool put_whole(WholePut& put) override;
  Task<Result<std::unique_ptr<ObjectWriter>>> create_append(std::string_view bucket, std::string_view key,
                                                            std::optional<uint64_t> size_hint,
                                                            AppendSealPtr seal) override;
  Task<Result<ObjectInfo>> rename(std::string_view bucket, RenameRequest request) override;
  Task<Result<Removed>> remove(std::string_view bucket, std::string_view key, RemoveRequest request) override;
  Task<std::vector<Result<void>>> evict(std::string_view bucket, RemovalGroundsPtr grounds,
                                        std::vector<Eviction> objects) override;
  Task<Result<ObjectInfo>> update(std::string_view bucket, std::string_view key, std::string_view version_id,
                                  ObjectChange change) override;
  Task<Result<void>> set_versioning(NamedBucket bucket, Versioning versioning) override;
  Task<Result<ObjectInfo>> complete_upload(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                           std::vector<PartInfo> parts, ObjectInfo info,
                                           CommitConditions conditions) override;

  // Forwarded unchanged. A call that changes the results of open() or stat() must not be among these: it must inform
  // the tier, as remove() does.
  Task<Result<void>> create_bucket(BucketInfo bucket, uint64_t owners_max = buckets_unlimited) override;
  Task<Result<BucketInfo>> bucket(std::string_view name) override;
  Task<Result<void>> set_durability(NamedBucket bucket, Durability durability) override;
  Task<Result<void>> set_lock(NamedBucket bucket, BucketLock lock) override;
  Task<Result<void>> remove_bucket(NamedBucket bucket) override;
  Task<Result<std::vector<BucketInfo>>> buckets() override;
  Task<Result<std::vector<BucketInfo>>> buckets_of(OwnersBuckets which) override;
  Task<Result<Usage>> bucket_usage(std::string_view bucket) override;
  Result<UsageNow> usage_now(std::string_view bucket) override;
  std::vector<BucketUsage> usages_now() override;
  bool keeps_usage() const override;
  bool keeps_events() const override;
  bool keeps_ends() const override;
  Task<Result<std::vector<EndedKey>>> ended(size_t max, const EndedKey* after) override;
  Task<Result<void>> forget_end(EndedKey ended) override;
  int64_t ended_us(std::string_view bucket) const override;
  Task<Result<void>> announce(std::string_view bucket, AnnouncementPtr announcement) override;
  Task<Result<std::vector<std::string>>> event_queues() override;
  Task<Result<std::vector<EventBacklog>>> event_backlog(std::string_view queue) override;
  Task<Result<std::vector<QueuedEvent>>> events(std::string_view queue, uint64_t bucket, uint64_t after,
                                                size_t events_max, size_t bytes_max) override;
  Task<Result<void>> remove_events(std::string_view queue, uint64_t bucket, std::vector<uint64_t> ids) override;
  Task<Result<Document>> document(std::string_view bucket, std::string_view name) override;
  Task<Result<BucketAndDocuments>> bucket_and_documents(std::string_view bucket,
                                                        std::span<const std::string_view> names) override;
  Task<Result<void>> set_document(NamedBucket bucket, std::string_view name, std::string bytes) override;
  Task<Result<void>> replace_document(NamedBucket bucket, std::string_view name, Document was,
                                      std::string bytes) override;
  Task<Result<void>> remove_document(NamedBucket bucket, std::string_view name) override;
  Task<Result<ObjectInfo>> find_version(std::string_view bucket, std::string_view key,
                                        std::string_view version_id) override;
  Task<Result<VersionPage>> list_versions(std::string_view bucket, ListVersionsRequest request) override;
  Task<Result<ListPage>> list(std::string_view bucket, ListRequest request) override;
  Task<Result<UploadInfo>> create_upload(UploadInfo upload) override;
  Task<Result<UploadInfo>> upload(std::string_view bucket, std::string_view key, std::string_view upload_id) override;
  Task<Result<std::unique_ptr<ObjectWriter>>> create_part(std::string_view bucket, std::string_view key,
                                                          std::string_view upload_id, int part_number,
                                                          std::optional<uint64_t> size_hint) override;
  Task<Result<PartPage>> list_parts(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                    int after_part, int max_parts) override;
  Task<Result<UploadPage>> list_uploads(std::string_view bucket, ListUploadsRequest request) override;
  Task<Result<void>> abort_upload(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                  RemovalGroundsPtr grounds = {}) override;

 private:
  class SizeVisitor;
  void let_go(std::string_view bucket, std::string_view key) override;
  void let_go_of_bucket(std::string_view bucket) override;
  void let_go_of_all() override;
  uint64_t kept(uint64_t term) const override;
  uint64_t keep_max() const;  // the largest object that may be cached
  // Whether the object may be served without asking the engine.
  bool is_current(const HotObject& object) const;
  // Called when the engine has confirmed that the object is current.
  void passed(std::string_view bucket, std::string_view key, const std::shared_ptr<HotObject>& object);
  std::shared_ptr<HotObject> find(std::string_view bucket, std::string_view key);
  int64_t come_us(std::string_view bucket) const;
  bool is_over(std::string_view bucket, std::string_view key, const HotObject& object);
  std::shared_ptr<ObjectReader> hot_below(std::string_view bucket, std::string_view key);

  Store& below_;
  EndIndex* const ends_;  // of `below_`; null: it has none
  const Options options_;
  std::shared_ptr<cache::HotTier> tier_;
  const std::shared_ptr<KeptObjects> kept_;
};

}  // namespace verbena::store
