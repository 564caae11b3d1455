#include "store/hot_store.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "base/metrics.h"
#include "store/hot_object.h"
#include "store/read_runs.h"
#include "store/reads_behind.h"
#include "store/whole_put.h"

namespace verbena::store {
namespace {

using TierPtr = std::shared_ptr<cache::HotTier>;

// Casts const away: a HotObject is immutable, and ObjectReader::read() is not const only because readers of files
// change.
std::shared_ptr<HotObject> as_reader(cache::EntryPtr entry) {
  return std::const_pointer_cast<HotObject>(std::static_pointer_cast<const HotObject>(std::move(entry)));
}

// Reads from the engine and collects the chunks; a complete object enters the tier.
class FillingReader final : public ObjectReader, public ReadsRuns, public ReadsBehind {
 public:
  FillingReader(std::shared_ptr<ObjectReader> below, TierPtr tier, cache::HotTier::FillToken token,
                memory::Arena& arena, std::string_view bucket, std::string_view key)
      : below_(std::move(below)),
        tier_(std::move(tier)),
        token_(token),
        bucket_(bucket),
        key_(key),
        pieces_(arena, tier_, stored_size(below_->info())) {}

  const ObjectInfo& info() const override { return below_->info(); }
  uint64_t run_bytes() const override { return run_bytes_of(*below_); }
  const std::shared_ptr<ObjectReader>& behind() const override { return below_; }
  size_t fit(uint64_t offset, size_t length, size_t memory_max) const override {
    return below_->fit(offset, length, memory_max);
  }

  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override {
    VB_CO_ASSIGN(memory::Chunk chunk, co_await below_->read(offset, length));
    if (pieces_.given_up()) co_return chunk;
    const uint64_t size = stored_size(info());
    memory::Chunk out = pieces_.take(std::move(chunk), offset, offset + length == size);
    if (auto object = pieces_.finish(info())) {
      tier_->insert(token_, cache::Key{bucket_, key_}, std::move(object));
    }
    co_return out;
  }

 private:
  std::shared_ptr<ObjectReader> below_;
  TierPtr tier_;
  const cache::HotTier::FillToken token_;
  const std::string bucket_, key_;
  HotPieces pieces_;
};

// A write through the tier: collects the bytes, and publishes the object that the engine committed.
class WriteThrough {
 public:
  // Nothing of a larger object is cached; the tier is informed of the change all the same.
  WriteThrough(memory::Arena& arena, const TierPtr& tier, uint64_t keep_max) : pieces_(arena, tier, keep_max) {}

  // Returns the chunk for the engine, shared with the tier from now on.
  memory::Chunk take(memory::Chunk chunk) {
    const uint64_t at = std::exchange(size_, size_ + chunk.bytes.size());
    return pieces_.take(std::move(chunk), at, true);
  }
  // Called before the engine's commit.
  void begin(cache::HotTier::Change change) { change_.emplace(std::move(change)); }
  // Called after it, successful or not.
  void end(const Result<ObjectInfo>& stored) {
    if (stored) change_->publish(pieces_.finish(*stored));
    change_.reset();
  }

 private:
  std::optional<cache::HotTier::Change> change_;  // while the engine commits
  HotPieces pieces_;
  uint64_t size_ = 0;
};

class FillingWriter final : public ObjectWriter {
 public:
  FillingWriter(std::unique_ptr<ObjectWriter> below, TierPtr tier, memory::Arena& arena, uint64_t keep_max,
                std::string_view bucket, std::string_view key)
      : below_(std::move(below)),
        tier_(std::move(tier)),
        bucket_(bucket),
        key_(key),
        passing_(arena, tier_, keep_max) {}

  Task<Result<void>> append(memory::Chunk chunk) override { return below_->append(passing_.take(std::move(chunk))); }
  std::optional<uint32_t> crc32c() const override { return below_->crc32c(); }

  Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions conditions) override {
    passing_.begin(tier_->change(cache::Key{bucket_, key_}));
    auto stored = co_await below_->commit(std::move(info), std::move(conditions));
    passing_.end(stored);
    co_return stored;
  }

 private:
  std::unique_ptr<ObjectWriter> below_;
  TierPtr tier_;
  const std::string bucket_, key_;
  WriteThrough passing_;
};

}  // namespace

HotStore::HotStore(Store& below, Options options)
    : below_(below),
      ends_(dynamic_cast<EndIndex*>(&below)),
      options_(options),
      tier_(cache::HotTier::create({.capacity = options.capacity})),
      kept_(std::make_shared<KeptObjects>()) {
  options_.arena->on_pressure([tier = tier_.get()](size_t bytes) { return tier->shed(bytes) != 0; });
  if (options_.shared != nullptr) options_.shared->listen(this);
}

uint64_t HotStore::keep_max() const { return std::min<uint64_t>(options_.object_size_max, tier_->capacity()); }

HotStore::~HotStore() {
  if (options_.shared != nullptr) options_.shared->listen(nullptr);
  options_.arena->on_pressure(nullptr);
}

std::shared_ptr<HotObject> HotStore::find(std::string_view bucket, std::string_view key) {
  auto found = as_reader(tier_->find(cache::Key{bucket, key}));
  if (found != nullptr && is_over(bucket, key, *found)) found.reset();
  return found;
}

// The latest end in the bucket that has come: by the clock, or because the engine has told so before it was set back.
int64_t HotStore::come_us(std::string_view bucket) const {
  return std::max(options_.clock->now_us(), ended_us(bucket));
}

// Drops the object, so that it does not come back when the clock is set back: the engine remembers what it tells.
bool HotStore::is_over(std::string_view bucket, std::string_view key, const HotObject& object) {
  if (object.end_us() == 0 || object.end_us() > come_us(bucket)) return false;
  let_go(bucket, key);
  return true;
}

bool HotStore::is_current(const HotObject& object) const {
  if (options_.shared == nullptr) return true;
  const uint64_t kept_in = object.kept_in();
  return kept_in != 0 && kept_in == options_.shared->term();
}

void HotStore::passed(std::string_view bucket, std::string_view key, const std::shared_ptr<HotObject>& object) {
  static auto& checked = metrics::counter("verbena_cache_checked_total",
                                          "Objects in the hot tier that the engine was asked about before they were "
                                          "answered");
  checked.add();
  if (object->passed_check() < options_.keep_after) return;
  object->forget_checks();
  options_.shared->keep(bucket, key, object->info().stamp,
                        [object, among = kept_](uint64_t term) { object->keep(term, *among); });
}

void HotStore::let_go(std::string_view bucket, std::string_view key) { tier_->drop(cache::Key{bucket, key}); }
void HotStore::let_go_of_all() { tier_->forget_all(); }
void HotStore::let_go_of_bucket(std::string_view bucket) { tier_->forget(bucket); }
uint64_t HotStore::kept(uint64_t term) const { return kept_->count(term); }

std::shared_ptr<ObjectReader> HotStore::hot(std::string_view bucket, std::string_view key) {
  auto found = find(bucket, key);
  if (found == nullptr) return hot_below(bucket, key);
  if (!is_current(*found)) return nullptr;
  cache::HotTier::count_hit();
  return found;
}

// An engine may have objects in memory, too. They enter the tier no second time.
std::shared_ptr<ObjectReader> HotStore::hot_below(std::string_view bucket, std::string_view key) {
  auto found = below_.hot(bucket, key);
  if (found != nullptr) cache::HotTier::count_miss();
  return found;
}

void HotStore::hot_many(std::span<HotLookup> lookups) {
  constexpr size_t together = 16;
  std::array<cache::HotTier::Lookup, together> all;
  while (!lookups.empty()) {
    const auto now = lookups.first(std::min(lookups.size(), together));
    lookups = lookups.subspan(now.size());
    const auto asked = std::span(all).first(now.size());
    for (size_t i = 0; i < now.size(); ++i) asked[i] = {.key = {now[i].bucket, now[i].key}};
    tier_->find_many(asked);
    for (size_t i = 0; i < now.size(); ++i) {
      auto found = as_reader(std::move(asked[i].found));
      if (found == nullptr || !is_current(*found) || is_over(now[i].bucket, now[i].key, *found)) continue;
      found->fetch_ahead();
      now[i].found = std::move(found);
      cache::HotTier::count_hit();
    }
    for (const HotLookup& one : now) {
      if (one.found != nullptr) static_cast<const HotObject&>(*one.found).fetch_ahead_behind();
    }
    for (HotLookup& one : now) {
      if (one.found == nullptr) one.found = hot_below(one.bucket, one.key);
    }
  }
}

// Reads sizes of current plain objects, from their labels. Those whose end has come are dropped by the caller, when no
// lock is held.
class HotStore::SizeVisitor final : public cache::HotTier::Visitor {
 public:
  SizeVisitor(const HotStore& store, std::string_view bucket, std::span<uint64_t> sizes)
      : store_(store), bucket_(bucket), sizes_(sizes) {}
  void visit(std::span<const cache::HotTier::Shown> shown) override {
    const bool asks_objects = store_.options_.shared != nullptr;
    for (size_t i = 0; asks_objects && i < shown.size(); ++i) object_of(shown[i]).fetch_kept_in_ahead();
    for (const cache::HotTier::Shown& one : shown) {
      const auto [size, end_us] = one.node->label;
      if (size == not_hot || (asks_objects && !store_.is_current(object_of(one)))) continue;
      const bool has_come = end_us != 0 && static_cast<int64_t>(end_us) <= come_us();
      sizes_[one.index] = has_come ? over : size;
      ++(has_come ? overs : hits);
    }
  }

  static constexpr uint64_t over = not_hot - 1;
  size_t hits = 0, overs = 0;

 private:
  static const HotObject& object_of(const cache::HotTier::Shown& one) {
    return static_cast<const HotObject&>(*one.node->entry);
  }

  // One moment for all of them.
  int64_t come_us() {
    if (!come_us_) come_us_ = store_.come_us(bucket_);
    return *come_us_;
  }

  const HotStore& store_;
  const std::string_view bucket_;
  const std::span<uint64_t> sizes_;
  std::optional<int64_t> come_us_{};
};

void HotStore::hot_sizes(const cache::KeyRun& keys, std::span<uint64_t> sizes) {
  const auto its = sizes.first(keys.count);
  std::ranges::fill(its, not_hot);
  SizeVisitor visitor(*this, keys.bucket, its);
  tier_->glance(keys, visitor);
  cache::HotTier::count_hit(visitor.hits);
  for (size_t i = 0; visitor.overs != 0 && i < its.size(); ++i) {
    if (its[i] != SizeVisitor::over) continue;
    its[i] = not_hot;
    let_go(keys.bucket, keys.at(i));
  }
}

Task<Result<std::shared_ptr<ObjectReader>>> HotStore::open(std::string_view bucket, std::string_view key,
                                                           std::string_view version_id) {
  if (!version_id.empty()) co_return co_await below_.open(bucket, key, version_id);
  const cache::Key name{bucket, key};
  auto found = find(bucket, key);
  const bool current = found && is_current(*found);
  // Without a stamp the engine cannot tell whether the object is current.
  if (found && !current && found->info().stamp == 0) found.reset();
  if (current) {
    cache::HotTier::count_hit();
    co_return found;
  }
  const auto token = tier_->fill_token(name);
  std::shared_ptr<ObjectReader> reader;
  if (found) {
    auto other = co_await options_.shared->open_unless(bucket, key, found->info().stamp);
    if (!other) {
      if (other.error() == Errc::no_such_key) let_go(bucket, key);
      co_return std::unexpected(other.error());
    }
    if (*other == nullptr) {
      cache::HotTier::count_hit();
      passed(bucket, key, found);
      co_return found;
    }
    cache::HotTier::count_miss();
    reader = std::move(*other);
  } else {
    cache::HotTier::count_miss();
    VB_CO_ASSIGN(reader, co_await below_.open(bucket, key));
  }
  const uint64_t size = stored_size(reader->info());
  if (!token.valid || size == 0 || size > keep_max()) co_return reader;
  co_return std::make_shared<FillingReader>(std::move(reader), tier_, token, *options_.arena, bucket, key);
}

Task<Result<ObjectInfo>> HotStore::stat(std::string_view bucket, std::string_view key, std::string_view version_id) {
  if (!version_id.empty()) co_return co_await below_.stat(bucket, key, version_id);
  if (auto found = hot(bucket, key)) co_return found->info();
  cache::HotTier::count_miss();
  co_return co_await below_.stat(bucket, key);
}

Task<Result<std::unique_ptr<ObjectWriter>>> HotStore::create(std::string_view bucket, std::string_view key,
                                                             std::optional<uint64_t> size_hint) {
  VB_CO_ASSIGN(std::unique_ptr<ObjectWriter> writer, co_await below_.create(bucket, key, size_hint));
  // Even if nothing will be cached, because the tier must be informed of the change.
  const uint64_t keep = size_hint && *size_hint > keep_max() ? 0 : keep_max();
  co_return std::make_unique<FillingWriter>(std::move(writer), tier_, *options_.arena, keep, bucket, key);
}

bool HotStore::put_whole(WholePut& put) {
  auto passing = std::make_unique<WriteThrough>(*options_.arena, tier_, keep_max());
  passing->begin(tier_->change(cache::Key{put.bucket, put.key}));
  put.bytes = passing->take(std::move(put.bytes));
  put.then = [passing = std::move(passing), then = std::move(put.then)](Result<ObjectInfo>&& stored) mutable {
    passing->end(stored);
    passing.reset();
    then(std::move(stored));
  };
  return below_.put_whole(put);
}

Task<Result<std::unique_ptr<ObjectWriter>>> HotStore::create_append(std::string_view bucket, std::string_view key,
                                                                    std::optional<uint64_t> size_hint,
                                                                    AppendSealPtr seal) {
  VB_CO_ASSIGN(std::unique_ptr<ObjectWriter> writer,
               co_await below_.create_append(bucket, key, size_hint, std::move(seal)));
  // The writer gets only the object's end, which the tier cannot use.
  constexpr uint64_t keep = 0;
  co_return std::make_unique<FillingWriter>(std::move(writer), tier_, *options_.arena, keep, bucket, key);
}

Task<Result<ObjectInfo>> HotStore::rename(std::string_view bucket, RenameRequest request) {
  const std::string from = request.from, to = request.to;
  auto source = tier_->change(cache::Key{bucket, from});
  auto target = tier_->change(cache::Key{bucket, to});
  co_return co_await below_.rename(bucket, std::move(request));
}

// Also for a given version: it may be the current one, or its removal may make another one current.
Task<Result<Removed>> HotStore::remove(std::string_view bucket, std::string_view key, RemoveRequest request) {
  auto change = tier_->change(cache::Key{bucket, key});
  co_return co_await below_.remove(bucket, key, std::move(request));
}

Task<std::vector<Result<void>>> HotStore::evict(std::string_view bucket, RemovalGroundsPtr grounds,
                                                std::vector<Eviction> objects) {
  std::vector<std::string_view> names;
  names.reserve(objects.size());
  for (const Eviction& one : objects) names.emplace_back(one.key);
  const auto removals = tier_->removals(bucket, names);
  co_return co_await below_.evict(bucket, std::move(grounds), std::move(objects));
}

Task<Result<ObjectInfo>> HotStore::update(std::string_view bucket, std::string_view key, std::string_view version_id,
                                          ObjectChange change) {
  auto told = tier_->change(cache::Key{bucket, key});
  co_return co_await below_.update(bucket, key, version_id, std::move(change));
}

// Objects without a version id get the id "null" now, which cached objects do not have.
Task<Result<void>> HotStore::set_versioning(NamedBucket bucket, Versioning versioning) {
  const std::string name(bucket.name);
  auto done = co_await below_.set_versioning(std::move(bucket), versioning);
  tier_->forget(name);
  co_return done;
}

Task<Result<ObjectInfo>> HotStore::complete_upload(std::string_view bucket, std::string_view key,
                                                   std::string_view upload_id, std::vector<PartInfo> parts,
                                                   ObjectInfo info, CommitConditions conditions) {
  auto change = tier_->change(cache::Key{bucket, key});
  co_return co_await below_.complete_upload(bucket, key, upload_id, std::move(parts), std::move(info),
                                            std::move(conditions));
}

Task<Result<void>> HotStore::create_bucket(BucketInfo bucket, uint64_t owners_max) {
  return below_.create_bucket(std::move(bucket), owners_max);
}
Task<Result<BucketInfo>> HotStore::bucket(std::string_view name) { return below_.bucket(name); }
Task<Result<void>> HotStore::set_durability(NamedBucket bucket, Durability durability) {
  return below_.set_durability(std::move(bucket), durability);
}
Task<Result<void>> HotStore::set_lock(NamedBucket bucket, BucketLock lock) {
  return below_.set_lock(std::move(bucket), lock);
}
Task<Result<ObjectInfo>> HotStore::find_version(std::string_view bucket, std::string_view key,
                                                std::string_view version_id) {
  return below_.find_version(bucket, key, version_id);
}
Task<Result<VersionPage>> HotStore::list_versions(std::string_view bucket, ListVersionsRequest request) {
  return below_.list_versions(bucket, std::move(request));
}
Task<Result<void>> HotStore::remove_bucket(NamedBucket bucket) {
  const std::string removed(bucket.name);
  auto done = co_await below_.remove_bucket(std::move(bucket));
  if (done) tier_->forget(removed);  // its name may be used by a new bucket
  co_return done;
}
Task<Result<std::vector<BucketInfo>>> HotStore::buckets() { return below_.buckets(); }
Task<Result<std::vector<BucketInfo>>> HotStore::buckets_of(OwnersBuckets which) {
  return below_.buckets_of(std::move(which));
}
Task<Result<Usage>> HotStore::bucket_usage(std::string_view bucket) { return below_.bucket_usage(bucket); }
Result<UsageNow> HotStore::usage_now(std::string_view bucket) { return below_.usage_now(bucket); }
std::vector<BucketUsage> HotStore::usages_now() { return below_.usages_now(); }
bool HotStore::keeps_usage() const { return below_.keeps_usage(); }
bool HotStore::keeps_events() const { return below_.keeps_events(); }
bool HotStore::keeps_ends() const { return ends_ != nullptr && ends_->keeps_ends(); }
// Only while it keeps ends.
Task<Result<std::vector<EndedKey>>> HotStore::ended(size_t max, const EndedKey* after) {
  return ends_->ended(max, after);
}
Task<Result<void>> HotStore::forget_end(EndedKey ended) { return ends_->forget_end(std::move(ended)); }
int64_t HotStore::ended_us(std::string_view bucket) const { return ends_ == nullptr ? 0 : ends_->ended_us(bucket); }
Task<Result<void>> HotStore::announce(std::string_view bucket, AnnouncementPtr announcement) {
  return below_.announce(bucket, std::move(announcement));
}
Task<Result<std::vector<std::string>>> HotStore::event_queues() { return below_.event_queues(); }
Task<Result<std::vector<EventBacklog>>> HotStore::event_backlog(std::string_view queue) {
  return below_.event_backlog(queue);
}
Task<Result<std::vector<QueuedEvent>>> HotStore::events(std::string_view queue, uint64_t bucket, uint64_t after,
                                                        size_t events_max, size_t bytes_max) {
  return below_.events(queue, bucket, after, events_max, bytes_max);
}
Task<Result<void>> HotStore::remove_events(std::string_view queue, uint64_t bucket, std::vector<uint64_t> ids) {
  return below_.remove_events(queue, bucket, std::move(ids));
}
Task<Result<Document>> HotStore::document(std::string_view bucket, std::string_view name) {
  return below_.document(bucket, name);
}
Task<Result<BucketAndDocuments>> HotStore::bucket_and_documents(std::string_view bucket,
                                                                std::span<const std::string_view> names) {
  return below_.bucket_and_documents(bucket, names);
}
Task<Result<void>> HotStore::set_document(NamedBucket bucket, std::string_view name, std::string bytes) {
  return below_.set_document(std::move(bucket), name, std::move(bytes));
}

Task<Result<void>> HotStore::replace_document(NamedBucket bucket, std::string_view name, Document was,
                                              std::string bytes) {
  return below_.replace_document(std::move(bucket), name, std::move(was), std::move(bytes));
}

Task<Result<void>> HotStore::remove_document(NamedBucket bucket, std::string_view name) {
  return below_.remove_document(std::move(bucket), name);
}
Task<Result<ListPage>> HotStore::list(std::string_view bucket, ListRequest request) {
  return below_.list(bucket, std::move(request));
}
Task<Result<UploadInfo>> HotStore::create_upload(UploadInfo upload) { return below_.create_upload(std::move(upload)); }
Task<Result<UploadInfo>> HotStore::upload(std::string_view bucket, std::string_view key, std::string_view upload_id) {
  return below_.upload(bucket, key, upload_id);
}
Task<Result<std::unique_ptr<ObjectWriter>>> HotStore::create_part(std::string_view bucket, std::string_view key,
                                                                  std::string_view upload_id, int part_number,
                                                                  std::optional<uint64_t> size_hint) {
  return below_.create_part(bucket, key, upload_id, part_number, size_hint);
}
Task<Result<PartPage>> HotStore::list_parts(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                            int after_part, int max_parts) {
  return below_.list_parts(bucket, key, upload_id, after_part, max_parts);
}
Task<Result<UploadPage>> HotStore::list_uploads(std::string_view bucket, ListUploadsRequest request) {
  return below_.list_uploads(bucket, std::move(request));
}
Task<Result<void>> HotStore::abort_upload(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                          RemovalGroundsPtr grounds) {
  return below_.abort_upload(bucket, key, upload_id, std::move(grounds));
}

}  // namespace verbena::store
