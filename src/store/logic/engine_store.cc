#include "store/logic/engine_store.h"

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "store/logic/append.h"
#include "store/logic/bucket_ops.h"
#include "store/logic/damage.h"
#include "store/logic/ends.h"
#include "store/logic/events.h"
#include "store/logic/keys.h"
#include "store/logic/list.h"
#include "store/logic/list_versions.h"
#include "store/logic/multipart.h"
#include "store/logic/object_writer.h"
#include "store/logic/open.h"
#include "store/logic/remove.h"
#include "store/logic/rename.h"

namespace verbena::store {
namespace {

// A version's name with its own storage, for a look on another thread.
struct OwnedName {
  std::string key, version_id;
  operator VersionName() const { return {key, version_id}; }
};

std::shared_ptr<const OwnedName> own(std::string_view key, std::string_view version_id) {
  return std::make_shared<const OwnedName>(OwnedName{std::string(key), std::string(version_id)});
}

// Reads a document that is too large to be kept in memory.
Task<Result<Document>> large_document(const Context& context, uint64_t bucket, std::string_view name) {
  const std::string row = keys::document(bucket, name);
  const Place place{.bucket = bucket};  // documents are durable in every bucket
  auto bytes = context.rows->at_hand(place).get(Table::meta, row);
  if (!bytes && bytes.error() == Errc::would_block) {
    auto look = [row](View& rows) { return rows.get(Table::meta, row); };
    bytes = co_await look_up(*context.rows, "document read", place, std::move(look));
  }
  if (!bytes) co_return std::unexpected(bytes.error());
  co_return std::make_shared<const std::string>(std::move(*bytes));
}

// An object that the catalogue refuses keeps its own removal back, which is told at once. One that waited for the disk
// keeps back those behind it that the catalogue does not have either: they would wait as long, one after the other.
Task<void> settle_each(const Context& context, const std::shared_ptr<const Bucket>& bucket, BatchRemoval& all) {
  constexpr auto long_wait = std::chrono::seconds(1);
  const auto since = SteadyClock::now();
  Result<void> late;
  for (Removal& one : all.removals) {
    if (!Early::holds_any(*bucket)) co_return;
    const bool too_late = !late && context.early->stat(*bucket, one.key);
    one.ready = late;
    if (!too_late) one.ready = co_await context.early->settle(bucket, one.key);
    if (!one.ready && SteadyClock::now() - since > long_wait) late = one.ready;
  }
}

// Removes each by its own conditions. An error: none was removed.
Task<Result<void>> commit_all(std::shared_ptr<Context> context, std::string bucket, std::shared_ptr<BatchRemoval> all) {
  VB_CO_BUCKET(auto found, context, bucket);
  for (Removal& one : all->removals) {
    VB_CO_TRY(check_key(one.key));
    one.bucket = found;
  }
  all->bucket = found;
  co_await settle_each(*context, found, *all);
  if (context->rows->has_one_place()) {
    const auto committed = co_await context->rows->commit(batch_removal_change(all));
    if (committed) co_return committed;
    // A damaged row of one key is no reason to keep the others, nor is an event that its queue has no room for. Any
    // other slow_down is a shortage of the server, which as many single commits would make worse.
    const auto refused = std::ranges::find(all->removals, true, &Removal::event_refused);
    const bool of_queue = refused != all->removals.end();
    if (!of_queue && !is_damage(committed.error())) {
      co_return committed;
    }
    if (of_queue) refused->ready = committed;  // counted as refused already
  }
  for (size_t i = 0; i < all->removals.size(); ++i) {
    auto one = std::make_shared<Removal>(std::move(all->removals[i]));
    auto committed = one->ready;
    if (committed) committed = co_await context->rows->commit(removal_change(one));
    all->outcomes[i] = outcome_of(*one, committed);
  }
  co_return Result<void>{};
}

Place place_of(const Bucket& bucket, std::string_view key = {}) {
  return {bucket.id, key, bucket.durability.load(std::memory_order_acquire)};
}

// The rows of a bucket and what is acknowledged and not among them yet, as of one moment. Null: the rows are enough.
std::shared_ptr<Moment> moment_with_early(Early* early, const Bucket& bucket, View& rows) {
  const bool asks = early != nullptr && (early->size_max(bucket) != 0 || Early::holds_any(bucket));
  return asks ? early->moment(bucket, rows) : nullptr;
}

// The look for a page of versions: of one moment.
auto page_of(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
             std::shared_ptr<VersionLister> lister) {
  return [context, bucket, lister, moment = std::shared_ptr<Moment>()](View& rows) mutable {
    if (!moment) moment = moment_with_early(context->early, *bucket, rows);
    return lister->run(moment ? *moment : rows);
  };
}

// The look for a page of objects: of one moment. It begins with the rows at hand, and goes on with them wherever it
// runs; where they end, it begins anew with the view that it is given.
class ObjectsLook {
 public:
  ObjectsLook(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket, ListRequest request)
      : context_(std::move(context)),
        bucket_(std::move(bucket)),
        lister_(std::make_shared<ObjectLister>(bucket_, std::move(request))) {}

  Result<ListPage> operator()(View& rows) { return run(rows, SIZE_MAX); }
  Result<ListPage> run(View& rows, size_t work_max) {
    if (view_ == nullptr) begin(rows);
    auto page = lister_->run(moment_ ? *moment_ : rows, work_max);
    if (page || !(page.error() == Errc::would_block) || view_ == &rows) return page;
    lister_->restart();
    begin(rows);
    return lister_->run(moment_ ? *moment_ : rows, work_max);
  }

 private:
  void begin(View& rows) {
    view_ = &rows;
    moment_ = moment_with_early(context_->early, *bucket_, rows);
  }

  std::shared_ptr<Context> context_;
  std::shared_ptr<const Bucket> bucket_;
  std::shared_ptr<Moment> moment_;  // outlives the lister's cursor
  std::shared_ptr<ObjectLister> lister_;
  View* view_ = nullptr;
};

// Rows of a page that are read on the core, if they are at hand: that takes less time than waking another thread. One
// that goes to a sink takes a third as long; so many fill a message of the native door, unless ETags are short.
constexpr size_t rows_at_once = 256, passed_rows_at_once = 768;

}  // namespace

// Buckets.

// What follows changes the bucket that was found, by its id: another one that gets its name meanwhile stays as it is.
static Result<void> check_made(const Bucket& found, const NamedBucket& wanted) {
  if (!wanted.made) return {};
  const BucketInfo info = found.info();
  if (info.created_us == wanted.made->created_us && info.owner == wanted.made->owner) return {};
  return fail(Errc::no_such_bucket, "another bucket has the name by now");
}

Task<Result<void>> EngineStore::create_bucket(BucketInfo bucket, uint64_t owners_max) {
  auto context = context_;
  const BucketRoom room(context->buckets, bucket.owner, bucket.name, owners_max);
  if (!room) {
    const bool exists = context->buckets.find(bucket.name) != nullptr;
    co_return fail(exists ? Errc::bucket_already_exists : Errc::too_many_buckets);
  }
  co_return co_await context->rows->commit(create_bucket_change(context->buckets, std::move(bucket)));
}

Task<Result<BucketInfo>> EngineStore::bucket(std::string_view name) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, name);
  co_return found->info();
}

Task<Result<void>> EngineStore::set_durability(NamedBucket bucket, Durability durability) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket.name);
  VB_CO_TRY(check_made(*found, bucket));
  auto edit = [durability](BucketInfo& info) -> Result<void> {
    info.durability = durability;
    return {};
  };
  Early::Shut shut(context->early, found);
  if (Early::holds_any(*found)) VB_CO_TRY(co_await context->early->settle(found));
  if (durability == Durability::memory) co_return co_await context->rows->commit(edit_bucket_change(found, edit));
  // Make everything acknowledged from memory durable, too: first, because a bucket whose objects may be lost must not
  // promise otherwise, and again for what arrived until the promise was made. If that fails, the bucket stays unsettled
  // until the next start: what it lost then is lost.
  VB_CO_TRY(co_await context->rows->sync());
  found->unsettled.fetch_add(1);
  auto settled = co_await context->rows->commit(edit_bucket_change(found, edit));
  const bool promised = settled.has_value();
  if (promised) settled = co_await context->rows->sync();
  if (settled || !promised) found->unsettled.fetch_sub(1);
  co_return settled;
}

Task<Result<void>> EngineStore::set_versioning(NamedBucket bucket, Versioning versioning) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket.name);
  VB_CO_TRY(check_made(*found, bucket));
  auto edit = [versioning](BucketInfo& info) -> Result<void> {
    if (versioning == Versioning::off && info.versioning != versioning) return fail(Errc::invalid_bucket_state);
    if (versioning == Versioning::suspended && info.lock.enabled) {
      return fail(Errc::invalid_bucket_state,
                  "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.");
    }
    info.versioning = versioning;
    return {};
  };
  Early::Shut shut(context->early, found);
  if (Early::holds_any(*found)) VB_CO_TRY(co_await context->early->settle(found));
  co_return co_await context->rows->commit(edit_bucket_change(found, edit));
}

Task<Result<void>> EngineStore::set_lock(NamedBucket bucket, BucketLock lock) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket.name);
  VB_CO_TRY(check_made(*found, bucket));
  auto edit = [lock](BucketInfo& info) -> Result<void> {
    if (lock.enabled && info.versioning != Versioning::enabled) {
      return fail(Errc::invalid_bucket_state,
                  "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration.");
    }
    if (info.lock.enabled && !lock.enabled) return fail(Errc::invalid_bucket_state, "object lock stays enabled");
    info.lock = lock;
    return {};
  };
  co_return co_await context->rows->commit(edit_bucket_change(found, edit));
}

Task<Result<void>> EngineStore::remove_bucket(NamedBucket bucket) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket.name);
  VB_CO_TRY(check_made(*found, bucket));
  Early::Shut shut(context->early, found);
  if (Early::holds_any(*found)) VB_CO_TRY(co_await context->early->settle(found));
  VB_CO_TRY(co_await context->rows->commit(remove_bucket_change(context->buckets, found)));
  shut.for_ever();
  co_return Result<void>{};
}

Task<Result<std::vector<BucketInfo>>> EngineStore::buckets() { co_return context_->buckets.list(); }
Task<Result<std::vector<BucketInfo>>> EngineStore::buckets_of(OwnersBuckets which) {
  co_return context_->buckets.of(which);
}

Task<Result<Usage>> EngineStore::bucket_usage(std::string_view bucket) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  if (!context->keeps_usage) co_return fail(Errc::not_implemented, "This store does not count what its buckets hold.");
  if (Early::holds_any(*found)) VB_CO_TRY(co_await context->early->settle(found));
  if (found->uncounted.load()) {
    co_return fail(Errc::service_unavailable, "What the bucket holds is still being counted.");
  }
  co_return found->committed.read();
}

bool EngineStore::keeps_usage() const { return context_->keeps_usage; }

Result<BucketFeedPtr> EngineStore::feed(std::string_view bucket) {
  VB_ASSIGN(const auto found, context_->known_bucket(bucket));
  if (!context_->tells_changes) return fail(Errc::not_implemented, "This store cannot report changes.");
  return found->feed;
}

void EngineStore::name_buckets(const Context& context, std::vector<EndedKey>& ended) {
  for (EndedKey& one : ended) {
    const auto bucket = context.buckets.find_id(one.bucket_id);
    if (bucket == nullptr) continue;
    one.bucket = bucket->name;
    one.bucket_created_us = bucket->created_us;
  }
}

Task<Result<std::vector<EndedKey>>> EngineStore::ended(size_t max, const EndedKey* after) {
  auto context = context_;
  if (!keeps_ends()) co_return std::vector<EndedKey>();
  const auto from = std::make_shared<const std::string>(after == nullptr ? std::string() : end_row(*after));
  const int64_t now_us = context->clock->now_us();
  auto look = [from, now_us, max](View& rows) { return read_ended(rows, now_us, max, *from); };
  const Place nowhere;
  VB_CO_ASSIGN(auto found, co_await look_up(*context->rows, "ended objects", nowhere, std::move(look)));
  name_buckets(*context, found);
  co_return found;
}

Task<Result<void>> EngineStore::forget_end(EndedKey ended) {
  auto context = context_;
  std::shared_ptr<const Bucket> bucket = context->buckets.find(ended.bucket);
  if (bucket != nullptr && bucket->id != ended.bucket_id) bucket.reset();
  co_return co_await context->rows->commit(forget_end_change(std::move(bucket), std::move(ended)));
}

int64_t EngineStore::ended_us(std::string_view bucket) const {
  const auto found = context_->buckets.find(bucket);
  return found == nullptr ? 0 : found->ended_us.load(std::memory_order_relaxed);
}

bool EngineStore::keeps_events() const { return context_->keeps_events; }

Task<Result<void>> EngineStore::announce(std::string_view bucket, AnnouncementPtr announcement) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  if (!context->keeps_events) co_return fail(Errc::not_implemented, "This store keeps no events.");
  co_return co_await context->rows->commit(announcement_change(found, std::move(announcement)));
}

// Event queues belong to no bucket: they are shown and changed at the highest durability.
Task<Result<std::vector<std::string>>> EngineStore::event_queues() {
  auto context = context_;
  if (!context->keeps_events) co_return fail(Errc::not_implemented, "This store keeps no events.");
  auto look = [](View& rows) { return list_event_queues(rows); };
  const Place nowhere;
  co_return co_await look_up(*context->rows, "event queues", nowhere, std::move(look));
}

Task<Result<std::vector<EventBacklog>>> EngineStore::event_backlog(std::string_view queue) {
  auto context = context_;
  if (!context->keeps_events) co_return fail(Errc::not_implemented, "This store keeps no events.");
  const auto name = std::make_shared<const std::string>(queue);
  auto look = [name](View& rows) { return count_events(rows, *name); };
  const Place nowhere;
  co_return co_await look_up(*context->rows, "event count", nowhere, std::move(look));
}

Task<Result<std::vector<QueuedEvent>>> EngineStore::events(std::string_view queue, uint64_t bucket, uint64_t after,
                                                           size_t events_max, size_t bytes_max) {
  auto context = context_;
  if (!context->keeps_events) co_return fail(Errc::not_implemented, "This store keeps no events.");
  const auto page =
      std::make_shared<const EventPage>(EventPage{std::string(queue), bucket, after, events_max, bytes_max});
  auto look = [page](View& rows) { return read_events(rows, *page); };
  const Place nowhere;
  auto events = co_await look_up(*context->rows, "event read", nowhere, std::move(look));
  if (!events || events->empty()) co_return events;
  // Rows of buckets that are not synced are visible before they are durable: a subscriber must not learn of an event
  // that a power cut could undo. Nor of an object whose bytes it could: but what cannot be made durable of `memory`
  // buckets holds up their events alone. (Of a bucket that is gone there are no bytes.)
  const auto of = context->buckets.find_id(bucket);
  const bool writes_behind = of != nullptr && of->may_lose_bytes();
  auto syncing = writes_behind ? context->rows->sync() : context->rows->sync_rows();
  VB_CO_TRY(co_await std::move(syncing));
  co_return events;
}

Task<Result<void>> EngineStore::remove_events(std::string_view queue, uint64_t bucket, std::vector<uint64_t> ids) {
  auto context = context_;
  if (!context->keeps_events) co_return fail(Errc::not_implemented, "This store keeps no events.");
  co_return co_await context->rows->commit(remove_events_change(std::string(queue), bucket, std::move(ids)));
}

Result<UsageNow> EngineStore::usage_now(std::string_view bucket) {
  VB_ASSIGN(const auto found, context_->known_bucket(bucket));
  if (!context_->keeps_usage) return fail(Errc::not_implemented, "This store does not count what its buckets hold.");
  return found->usage_now();
}

std::vector<BucketUsage> EngineStore::usages_now() {
  std::vector<BucketUsage> usages;
  if (!context_->keeps_usage) return usages;
  for (const auto& bucket : context_->buckets.all()) {
    const UsageNow now = bucket->usage_now();
    usages.push_back({bucket->name, bucket->owner, now.bucket, now.bucket_counted});
  }
  return usages;
}

Task<Result<Document>> EngineStore::document(std::string_view bucket, std::string_view name) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  using Where = Documents::Found::Where;
  Documents::Found kept = found->documents.get(name);
  if (kept.where == Where::nowhere) co_return fail(Errc::not_found, "bucket document");
  if (kept.where == Where::in_memory) co_return std::move(kept.document);
  co_return co_await large_document(*context, found->id, name);
}

Task<Result<BucketAndDocuments>> EngineStore::bucket_and_documents(std::string_view bucket,
                                                                   std::span<const std::string_view> names) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  BucketAndDocuments all{.bucket = found->info(), .documents = {}};
  const auto kept = found->documents.get_all(names);
  for (size_t i = 0; i < names.size(); ++i) {
    Document& document = all.documents.emplace_back(kept[i].document);
    if (kept[i].where != Documents::Found::Where::only_in_index) continue;
    auto large = co_await large_document(*context, found->id, names[i]);
    if (!large && large.error() == Errc::not_found) continue;  // removed meanwhile
    if (!large) co_return std::unexpected(large.error());
    document = std::move(*large);
  }
  co_return all;
}

namespace {

// `was`: the document that must still be there; nullopt: any.
Task<Result<void>> write_document(std::shared_ptr<Context> context, NamedBucket bucket, std::string_view name,
                                  std::optional<Document> was, std::string bytes) {
  VB_CO_TRY(check_document(name, bytes));
  VB_CO_BUCKET(auto found, context, bucket.name);
  VB_CO_TRY(check_made(*found, bucket));
  const DocumentRoom room(found->documents, name, bytes.size());
  if (!room) {
    co_return fail(Errc::limit_exceeded, "The configurations of all your buckets together are too large.");
  }
  auto document = std::make_shared<const std::string>(std::move(bytes));
  co_return co_await context->rows->commit(
      set_document_change(found, std::string(name), std::move(document), std::move(was)));
}

Task<Result<void>> erase_document(std::shared_ptr<Context> context, NamedBucket bucket, std::string_view name,
                                  std::optional<Document> was) {
  VB_CO_BUCKET(auto found, context, bucket.name);
  VB_CO_TRY(check_made(*found, bucket));
  co_return co_await context->rows->commit(remove_document_change(found, std::string(name), std::move(was)));
}

}  // namespace

Task<Result<void>> EngineStore::set_document(NamedBucket bucket, std::string_view name, std::string bytes) {
  return write_document(context_, std::move(bucket), name, std::nullopt, std::move(bytes));
}

Task<Result<void>> EngineStore::replace_document(NamedBucket bucket, std::string_view name, Document was,
                                                 std::string bytes) {
  if (bytes.empty()) return erase_document(context_, std::move(bucket), name, std::move(was));
  return write_document(context_, std::move(bucket), name, std::move(was), std::move(bytes));
}

Task<Result<void>> EngineStore::remove_document(NamedBucket bucket, std::string_view name) {
  return erase_document(context_, std::move(bucket), name, std::nullopt);
}

// Objects.

Task<Result<std::shared_ptr<ObjectReader>>> EngineStore::open(std::string_view bucket, std::string_view key,
                                                              std::string_view version_id) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  VB_CO_TRY(check_key(key));
  if (Early::holds_any(*found)) {
    if (!version_id.empty()) {
      VB_CO_TRY(co_await context->early->settle(found, std::string(key)));
    } else if (auto acknowledged = context->early->open(*found, key)) {
      if (found->is_gone(acknowledged->info())) co_return fail(Errc::no_such_key);
      co_return acknowledged;
    }
  }
  // Rows at hand are answered without waiting.
  auto opened = open_object(*context->blobs, context->rows->at_hand(place_of(*found, key)), *found, {key, version_id});
  if (opened || !(opened.error() == Errc::would_block)) co_return opened;
  const auto name = own(key, version_id);
  auto look = [context, found, name](View& rows) { return open_object(*context->blobs, rows, *found, *name); };
  co_return co_await look_up(*context->rows, "object open", place_of(*found, name->key), std::move(look));
}

std::shared_ptr<ObjectReader> EngineStore::hot(std::string_view bucket, std::string_view key) {
  if (context_->early == nullptr || key.size() > key_size_max) return nullptr;
  const auto found = context_->find_bucket(bucket);
  if (!found || !Early::holds_any(**found)) return nullptr;
  auto acknowledged = context_->early->open(**found, key);
  if (acknowledged == nullptr || acknowledged->view(0, 1).empty()) return nullptr;
  if ((*found)->is_gone(acknowledged->info())) return nullptr;
  return acknowledged;
}

Task<Result<ObjectInfo>> EngineStore::stat(std::string_view bucket, std::string_view key, std::string_view version_id) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  VB_CO_TRY(check_key(key));
  if (Early::holds_any(*found)) {
    if (!version_id.empty()) {
      VB_CO_TRY(co_await context->early->settle(found, std::string(key)));
    } else if (auto acknowledged = context->early->stat(*found, key)) {
      if (found->is_gone(*acknowledged)) co_return fail(Errc::no_such_key);
      co_return std::move(*acknowledged);
    }
  }
  auto info = stat_object(context->rows->at_hand(place_of(*found, key)), *found, {key, version_id});
  if (info || !(info.error() == Errc::would_block)) co_return info;
  const auto name = own(key, version_id);
  auto look = [found, name](View& rows) { return stat_object(rows, *found, *name); };
  co_return co_await look_up(*context->rows, "object stat", place_of(*found, name->key), std::move(look));
}

Task<Result<ObjectInfo>> EngineStore::find_version(std::string_view bucket, std::string_view key,
                                                   std::string_view version_id) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  VB_CO_TRY(check_key(key));
  const auto name = own(key, version_id);
  if (Early::holds_any(*found)) VB_CO_TRY(co_await context->early->settle(found, name->key));
  auto look = [found, name](View& rows) { return stat_version(rows, *found, *name); };
  co_return co_await look_up(*context->rows, "version stat", place_of(*found, name->key), std::move(look));
}

Task<Result<std::unique_ptr<ObjectWriter>>> EngineStore::create(std::string_view bucket, std::string_view key,
                                                                std::optional<uint64_t> size_hint) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  VB_CO_TRY(check_key(key));
  if (size_hint && *size_hint > object_size_max) co_return fail(Errc::entity_too_large);
  co_return make_object_writer(std::move(context), std::move(found), std::string(key), size_hint);
}

// Any error is left to the general path to report.
bool EngineStore::put_whole(WholePut& put) {
  if (put.bytes.bytes.size() > context_->whole_put_max || !check_key(put.key)) return false;
  auto found = context_->find_bucket(put.bucket);
  if (found && put.bucket_created_us != 0 && (*found)->created_us != put.bucket_created_us) return false;
  return found && store::put_whole(*context_, std::move(*found), put);
}

Task<Result<std::unique_ptr<ObjectWriter>>> EngineStore::create_append(std::string_view bucket, std::string_view key,
                                                                       std::optional<uint64_t> size_hint,
                                                                       AppendSealPtr seal) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  VB_CO_TRY(check_key(key));
  if (size_hint && *size_hint > object_size_max) co_return fail(Errc::entity_too_large);
  co_return make_append_writer(std::move(context), std::move(found), std::string(key), size_hint, std::move(seal));
}

Task<Result<ObjectInfo>> EngineStore::rename(std::string_view bucket, RenameRequest request) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  VB_CO_TRY(check_key(request.from));
  VB_CO_TRY(check_key(request.to));
  auto renaming = std::make_shared<Renaming>(Renaming{found, std::move(request)});
  // An object acknowledged meanwhile would hide the change of one key, and not that of the other.
  Early::Shut shut(context->early, found);
  if (Early::holds_any(*found)) {
    VB_CO_TRY(co_await context->early->settle(found, renaming->request.from));
    VB_CO_TRY(co_await context->early->settle(found, renaming->request.to));
  }
  VB_CO_TRY(co_await context->rows->commit(rename_change(renaming)));
  co_return std::move(renaming->info);
}

Task<Result<Removed>> EngineStore::remove(std::string_view bucket, std::string_view key, RemoveRequest request) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  if (request.bucket_created_us != 0 && request.bucket_created_us != found->created_us) {
    co_return fail(Errc::no_such_bucket, "another bucket has the name by now");
  }
  VB_CO_TRY(check_key(key));
  auto removal = std::make_shared<Removal>(Removal{found, std::string(key), std::move(request), {}});
  Change change = removal_change(removal);
  if (Early::holds_any(*found) && removal->request.version_id.empty()) {
    VB_CO_ASSIGN(const bool done, co_await context->early->remove(found, removal->key, change.judge));
    if (done) co_return std::move(removal->removed);
  } else if (Early::holds_any(*found)) {
    VB_CO_TRY(co_await context->early->settle(found, removal->key));
  }
  VB_CO_TRY(co_await context->rows->commit(std::move(change)));
  co_return std::move(removal->removed);
}

Task<std::vector<Result<void>>> EngineStore::evict(std::string_view bucket, RemovalGroundsPtr grounds,
                                                   std::vector<Eviction> objects) {
  const auto eviction = std::make_shared<BatchRemoval>();
  for (Eviction& one : objects) {
    RemoveRequest request{.grounds = grounds};
    request.conditions.if_modified_us = one.modified_us;
    request.conditions.announcement = std::move(one.announcement);
    eviction->removals.push_back({nullptr, std::move(one.key), std::move(request), {}});
  }
  eviction->outcomes.resize(objects.size());
  if (const auto done = co_await commit_all(context_, std::string(bucket), eviction); !done) {
    std::ranges::fill(eviction->outcomes, Result<void>(std::unexpected(done.error())));
  }
  co_return std::move(eviction->outcomes);
}

Task<Result<ObjectInfo>> EngineStore::update(std::string_view bucket, std::string_view key, std::string_view version_id,
                                             ObjectChange change) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  VB_CO_TRY(check_key(key));
  if (Early::holds_any(*found)) VB_CO_TRY(co_await context->early->settle(found, std::string(key)));
  auto update =
      std::make_shared<Update>(Update{found, std::string(key), std::string(version_id), std::move(change), {}});
  VB_CO_TRY(co_await context->rows->commit(update_change(update)));
  co_return std::move(update->info);
}

Task<Result<ListPage>> EngineStore::list(std::string_view bucket, ListRequest request) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  if (Early::holds_any(*found)) co_await context->early->thin_out(found);
  const size_t at_once = request.sink ? passed_rows_at_once : rows_at_once;
  ObjectsLook look(context, found, std::move(request));
  auto page = look.run(context->rows->at_hand(place_of(*found)), at_once);
  if (page || !(page.error() == Errc::would_block)) co_return page;
  co_return co_await look_up(*context->rows, "object list", place_of(*found), std::move(look));
}

Task<Result<VersionPage>> EngineStore::list_versions(std::string_view bucket, ListVersionsRequest request) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  if (Early::holds_any(*found)) co_await context->early->thin_out(found);
  auto lister = std::make_shared<VersionLister>(found, std::move(request));
  auto look = page_of(context, found, lister);
  co_return co_await look_up(*context->rows, "version list", place_of(*found), std::move(look));
}

// Multipart.

Task<Result<UploadInfo>> EngineStore::create_upload(UploadInfo upload) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, upload.bucket);
  VB_CO_TRY(check_key(upload.key));
  upload.created_us = context->clock->now_us();
  upload.upload_id = make_upload_id(upload.created_us);
  const auto info = std::make_shared<const UploadInfo>(std::move(upload));
  VB_CO_TRY(co_await context->rows->commit(create_upload_change(found, info)));
  co_return *info;
}

Task<Result<UploadInfo>> EngineStore::upload(std::string_view bucket, std::string_view key,
                                             std::string_view upload_id) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  const auto name = own(key, upload_id);
  auto look = [found, name](View& rows) { return find_upload(rows, *found, name->key, name->version_id); };
  VB_CO_ASSIGN(UploadRecord record,
               co_await look_up(*context->rows, "upload stat", place_of(*found, name->key), std::move(look)));
  co_return std::move(record.info);
}

Task<Result<std::unique_ptr<ObjectWriter>>> EngineStore::create_part(std::string_view bucket, std::string_view key,
                                                                     std::string_view upload_id, int part_number,
                                                                     std::optional<uint64_t> size_hint) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  if (part_number < 1 || part_number > part_number_max) co_return fail(Errc::invalid_argument, "part number");
  if (size_hint && *size_hint > part_stored_size_max) co_return fail(Errc::entity_too_large);
  const auto name = own(key, upload_id);
  // Checked early for the client's sake; the commit decides.
  auto look = [found, name](View& rows) { return find_upload(rows, *found, name->key, name->version_id); };
  VB_CO_TRY(co_await look_up(*context->rows, "upload stat", place_of(*found, name->key), std::move(look)));
  co_return make_part_writer(context, std::move(found), name->key, name->version_id, part_number, size_hint);
}

Task<Result<PartPage>> EngineStore::list_parts(std::string_view bucket, std::string_view key,
                                               std::string_view upload_id, int after_part, int max_parts) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  const auto name = own(key, upload_id);
  // The upload and its parts as of one moment: if it were completed in between, it would seem to have none.
  auto look = [found, name, after_part, max_parts](View& rows) -> Result<PartPage> {
    const auto moment = rows.moment();
    VB_ASSIGN(UploadRecord upload, find_upload(*moment, *found, name->key, name->version_id));
    return store::list_parts(*moment, upload, after_part, max_parts);
  };
  co_return co_await look_up(*context->rows, "part list", place_of(*found, name->key), std::move(look));
}

Task<Result<UploadPage>> EngineStore::list_uploads(std::string_view bucket, ListUploadsRequest request) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  auto lister = std::make_shared<UploadLister>(found, std::move(request));
  auto look = [lister](View& rows) { return lister->run(rows); };
  co_return co_await look_up(*context->rows, "upload list", place_of(*found), std::move(look));
}

Task<Result<ObjectInfo>> EngineStore::complete_upload(std::string_view bucket, std::string_view key,
                                                      std::string_view upload_id, std::vector<PartInfo> parts,
                                                      ObjectInfo info, CommitConditions conditions) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  auto completion = std::make_shared<Completion>(Completion{found, std::string(key), std::string(upload_id),
                                                            std::move(parts), std::move(info), std::move(conditions)});
  VB_CO_TRY(check_key(key));
  if (completion->parts.empty()) co_return fail(Errc::invalid_request, "complete: no parts");
  if (Early::holds_any(*found)) VB_CO_TRY(co_await context->early->settle(found, std::string(key)));
  VB_CO_TRY(co_await context->rows->commit(completion_change(completion)));
  co_return std::move(completion->stored);
}

Task<Result<void>> EngineStore::abort_upload(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                             RemovalGroundsPtr grounds) {
  auto context = context_;
  VB_CO_BUCKET(auto found, context, bucket);
  co_return co_await context->rows->commit(
      abort_upload_change(found, std::string(key), std::string(upload_id), std::move(grounds)));
}

}  // namespace verbena::store
