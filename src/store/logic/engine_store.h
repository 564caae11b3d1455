// The store over any engine: each verb of store.h as looks and changes of the engine's catalogue and its blobs.
//
// Used from all cores' threads at once; a writer belongs to the core that made it, a reader may be shared.
#pragma once

#include <memory>

#include "store/change_feed.h"
#include "store/ends.h"
#include "store/logic/context.h"
#include "store/store.h"

namespace verbena::store {

class EngineStore : public Store, public ChangeFeeds, public EndIndex {
 public:
  Result<BucketFeedPtr> feed(std::string_view bucket) override;
  bool keeps_ends() const override { return context_->buckets.keeps_ends(); }
  Task<Result<std::vector<EndedKey>>> ended(size_t max, const EndedKey* after) override;
  Task<Result<void>> forget_end(EndedKey ended) override;
  int64_t ended_us(std::string_view bucket) const override;

  Task<Result<void>> create_bucket(BucketInfo bucket, uint64_t owners_max = buckets_unlimited) override;
  Task<Result<BucketInfo>> bucket(std::string_view name) override;
  Task<Result<void>> set_durability(NamedBucket bucket, Durability durability) override;
  Task<Result<void>> set_versioning(NamedBucket bucket, Versioning versioning) override;
  Task<Result<void>> set_lock(NamedBucket bucket, BucketLock lock) override;
  Task<Result<void>> remove_bucket(NamedBucket bucket) override;
  Task<Result<std::vector<BucketInfo>>> buckets() override;
  Task<Result<std::vector<BucketInfo>>> buckets_of(OwnersBuckets which) override;
  Task<Result<Usage>> bucket_usage(std::string_view bucket) override;
  Result<UsageNow> usage_now(std::string_view bucket) override;
  std::vector<BucketUsage> usages_now() override;
  bool keeps_usage() const override;
  bool keeps_events() const override;
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
  Task<Result<std::shared_ptr<ObjectReader>>> open(std::string_view bucket, std::string_view key,
                                                   std::string_view version_id = {}) override;
  // What the engine has acknowledged and its catalogue does not have yet is in memory.
  std::shared_ptr<ObjectReader> hot(std::string_view bucket, std::string_view key) override;
  Task<Result<ObjectInfo>> stat(std::string_view bucket, std::string_view key,
                                std::string_view version_id = {}) override;
  Task<Result<ObjectInfo>> find_version(std::string_view bucket, std::string_view key,
                                        std::string_view version_id) override;
  Task<Result<std::unique_ptr<ObjectWriter>>> create(std::string_view bucket, std::string_view key,
                                                     std::optional<uint64_t> size_hint) override;
  uint64_t whole_put_max() const override { return context_->whole_put_max; }
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
  Task<Result<ListPage>> list(std::string_view bucket, ListRequest request) override;
  Task<Result<VersionPage>> list_versions(std::string_view bucket, ListVersionsRequest request) override;
  Task<Result<UploadInfo>> create_upload(UploadInfo upload) override;
  Task<Result<UploadInfo>> upload(std::string_view bucket, std::string_view key, std::string_view upload_id) override;
  Task<Result<std::unique_ptr<ObjectWriter>>> create_part(std::string_view bucket, std::string_view key,
                                                          std::string_view upload_id, int part_number,
                                                          std::optional<uint64_t> size_hint) override;
  Task<Result<PartPage>> list_parts(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                    int after_part, int max_parts) override;
  Task<Result<UploadPage>> list_uploads(std::string_view bucket, ListUploadsRequest request) override;
  Task<Result<ObjectInfo>> complete_upload(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                           std::vector<PartInfo> parts, ObjectInfo info,
                                           CommitConditions conditions) override;
  Task<Result<void>> abort_upload(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                  RemovalGroundsPtr grounds = {}) override;

  // For another front end of the same store.
  const std::shared_ptr<Context>& context() const { return context_; }

 protected:
  explicit EngineStore(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  static void name_buckets(const Context& context, std::vector<EndedKey>& ended);

 private:
  const std::shared_ptr<Context> context_;
};

}  // namespace verbena::store
