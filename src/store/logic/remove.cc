#include "store/logic/remove.h"

#include "store/logic/ends.h"
#include "store/logic/events.h"
#include "store/logic/grounds.h"
#include "store/logic/object_ops.h"
#include "store/logic/usage.h"
#include "store/logic/versions.h"

namespace verbena::store {
namespace {

bool evicts(const Removal& r) {
  return r.request.grounds != nullptr && r.request.grounds->of == RemovalGrounds::Of::evicted;
}

// Whether what the removal was decided by still holds; of an eviction without its bound (BoundCheck).
Result<void> check_why(Transaction& transaction, const Removal& r, const BucketRecord& bucket,
                       const std::optional<Version>& version) {
  if (r.request.grounds == nullptr) return {};
  const RemovalGrounds& grounds = *r.request.grounds;
  if (evicts(r)) return check_unpinned(bucket, r.key);
  if (grounds.of != RemovalGrounds::Of::ended) return check_grounds(transaction, bucket, r.key, version, grounds);
  const bool holds = bucket.info.created_us == grounds.bucket_created_us && version && version->current &&
                     r.bucket->is_gone(version->record.info);
  if (holds) return {};
  return fail(Errc::precondition_failed, "The object's end has not come.");
}

// A missing object meets any condition.
Result<void> check_remove(const std::optional<Version>& version, const CommitConditions& conditions) {
  if (!version) return {};
  const ObjectInfo& info = version->record.info;
  const auto differs = [](const auto& wanted, auto is) { return wanted && *wanted != is; };
  if (conditions.if_match && *conditions.if_match != "*" && *conditions.if_match != info.etag) {
    return fail(Errc::precondition_failed, "If-Match");
  }
  if (differs(conditions.if_modified_s, info.modified_us / 1'000'000)) {
    return fail(Errc::precondition_failed, "x-amz-if-match-last-modified-time");
  }
  if (differs(conditions.if_size, info.size)) return fail(Errc::precondition_failed, "x-amz-if-match-size");
  if (differs(conditions.if_modified_us, info.modified_us)) return fail(Errc::precondition_failed, "modified");
  return {};
}

Result<void> remove_one_version(Transaction& transaction, Removal& r, const BucketRecord& bucket) {
  VB_ASSIGN(auto version, find_version(transaction, r.bucket->id, r.key, r.request.version_id));
  r.removed.version_id = r.request.version_id;
  VB_TRY(check_why(transaction, r, bucket, version));
  if (!version) return {};
  const bool ended = version->current && is_gone_by_name(*r.bucket, version->record.info, bucket.info.versioning);
  if (ended && r.request.grounds == nullptr) return {};
  VB_TRY(check_remove(version, r.request.conditions));
  VB_TRY(check_lock(version->record.info.lock, transaction.now_us(), r.request.bypass_governance));
  r.removed.delete_marker = version->record.info.delete_marker;
  r.happened = true;
  const ObjectInfo* const before = version->current ? &version->record.info : nullptr;
  VB_ASSIGN(r.told.modified_us, time_after(transaction, bucket.id, r.key, before, transaction.now_us()));
  if (version->current) transaction.leave_us(bucket.id, r.key, r.told.modified_us);
  VB_ASSIGN(CurrentObject current, remove_version(transaction, bucket.id, r.key, *version));
  r.changes_current = current.changed;
  r.uncovered = std::move(current.now);
  if (r.uncovered) name_version(*r.uncovered, bucket.info.versioning);
  return {};
}

Result<void> put_delete_marker(Transaction& transaction, Removal& r, const BucketRecord& bucket, int64_t time_us) {
  VB_ASSIGN(const uint64_t id, transaction.next_id());
  ObjectRecord marker{.id = id, .info = {}, .blob = {}, .part_count = 0};
  if (bucket.info.versioning == Versioning::enabled) marker.info.version_id = make_version_id(marker.id);
  marker.info.delete_marker = true;
  marker.info.modified_us = time_us;
  put_version(transaction, bucket.id, r.key, {marker, /*current=*/false});
  transaction.count(as_version(marker));
  r.removed.delete_marker = r.happened = true;
  name_version(marker.info, bucket.info.versioning);
  r.removed.version_id = marker.info.version_id;
  return {};
}

// Checks that a marker adds no row. One that hides no object is an additional row, except in a bucket of suspended
// versioning where it replaces the key's null version. `ended`: the current object, whose end has come.
Result<void> check_marker_replaces(Transaction& transaction, const BucketRecord& bucket, std::string_view key,
                                   const std::optional<ObjectRecord>& ended) {
  if (bucket.info.versioning == Versioning::suspended) {
    if (ended && ended->is_null()) return {};
    VB_ASSIGN(const bool replaced, has_older_null_version(transaction, bucket.id, key));
    if (replaced) return {};
  }
  return fail(Errc::quota_exceeded,
              "The quota is used up: the key has no object, and there is no room for a delete marker.");
}

Result<void> remove_current(Transaction& transaction, Removal& r, const BucketRecord& bucket) {
  VB_ASSIGN(auto newest, find_newest(transaction, bucket.id, r.key));
  VB_TRY(check_why(transaction, r, bucket, newest));
  const bool ended = newest && newest->current && r.bucket->is_gone(newest->record.info);
  // An object that has ended is missing for clients: it is left to the sweep, which announces its end. A rule's
  // conditions name the version that it has chosen.
  const bool missing = !newest || (ended && r.request.grounds == nullptr);
  if (!missing) VB_TRY(check_remove(newest, r.request.conditions));
  // A conditional removal of a missing object makes no marker either.
  if (missing && (r.request.conditions.any() || bucket.info.versioning == Versioning::off)) return {};
  const ObjectInfo* const before = newest ? &newest->record.info : nullptr;
  VB_ASSIGN(r.told.modified_us, time_after(transaction, bucket.id, r.key, before, transaction.now_us()));
  std::optional<ObjectRecord> current;
  if (newest && newest->current) current = std::move(newest->record);
  if ((!current || ended) && !r.request.may_add_marker)
    VB_TRY(check_marker_replaces(transaction, bucket, r.key, current));
  VB_TRY(step_aside(transaction, *r.bucket, bucket, r.key, current));
  if (current) transaction.erase(Table::objects, keys::object(bucket.id, r.key));
  move_end(transaction, bucket.id, r.key, info_of(current), nullptr);
  transaction.leave_us(bucket.id, r.key, r.told.modified_us);
  r.happened = true;
  r.changes_current = current.has_value();
  if (bucket.info.versioning == Versioning::off) return {};
  return put_delete_marker(transaction, r, bucket, r.told.modified_us);
}

void tell(const Removal& r) {
  BucketFeed& feed = *r.bucket->feed;
  const KeyEvent what = evicts(r) ? KeyEvent::evicted : r.told.delete_marker ? KeyEvent::marked : KeyEvent::removed;
  // A version that another one replaces is no event for clients that may not see versions.
  feed.tell(what, r.key, r.told, /*of_versions=*/!r.changes_current || r.uncovered);
  if (r.uncovered) feed.tell(KeyEvent::created, r.key, *r.uncovered);
}

// Fails with precondition_failed only before it has changed a row.
Result<void> judge_removal(Transaction& transaction, Removal& r, const BucketRecord& bucket) {
  r.removed = {};
  r.told = {};
  r.happened = r.changes_current = r.event_refused = false;
  r.uncovered.reset();
  const bool named = !r.request.version_id.empty();
  VB_TRY(named ? remove_one_version(transaction, r, bucket) : remove_current(transaction, r, bucket));
  if (!r.happened) return {};
  r.told.version_id = r.removed.version_id;
  r.told.delete_marker = !named && r.removed.delete_marker;
  transaction.on_commit([p = &r] { tell(*p); });
  return announce(transaction, r.request.conditions.announcement, bucket.id, r.told, &r.event_refused);
}

// The bound is looked up and compared once for all that were chosen by it: no removal changes it, and the transaction
// sees no other change meanwhile.
class BoundCheck {
 public:
  Result<void> of(Transaction& transaction, const BucketRecord& bucket, const Removal& r) {
    if (!evicts(r)) return {};
    const RemovalGrounds* const grounds = r.request.grounds.get();
    if (std::exchange(checked_, grounds) != grounds) holds_ = check_bound(transaction, bucket, *grounds);
    return holds_;
  }

 private:
  const RemovalGrounds* checked_ = nullptr;
  Result<void> holds_;
};

Result<void> judge_batch(Transaction& transaction, BatchRemoval& batch) {
  VB_ASSIGN(const BucketRecord bucket, check_bucket(transaction, *batch.bucket));
  for (Removal& one : batch.removals) one.event_refused = false;  // of a run before
  BoundCheck bound;
  for (size_t i = 0; i < batch.removals.size(); ++i) {
    Removal& one = batch.removals[i];
    auto judged = one.ready;
    if (judged) judged = bound.of(transaction, bucket, one);
    if (judged) judged = judge_removal(transaction, one, bucket);
    if (one.ready && !judged && judged.error() != Errc::precondition_failed) return judged;
    batch.outcomes[i] = outcome_of(one, judged);
  }
  return {};
}

Result<void> judge_update(Transaction& transaction, Update& u) {
  VB_ASSIGN(BucketRecord bucket, check_bucket(transaction, *u.bucket));
  const bool locks = u.change.retention || u.change.legal_hold;
  if (locks && !bucket.info.lock.enabled) {
    return fail(Errc::invalid_request, "Bucket is missing Object Lock Configuration.");
  }
  const bool newest = u.version_id.empty();
  VB_ASSIGN(auto version, newest ? find_newest(transaction, bucket.id, u.key)
                                 : find_version(transaction, bucket.id, u.key, u.version_id));
  const bool is_current = version && version->current;
  // By its name a version that has ended keeps its tags and locks, but nothing renews it.
  const bool as_current = newest || find_attribute(u.change.attributes, touch_attribute) != nullptr;
  const bool ended =
      is_current && (as_current ? u.bucket->is_gone(version->record.info)
                                : is_gone_by_name(*u.bucket, version->record.info, bucket.info.versioning));
  if (!version || ended) return fail(newest ? Errc::no_such_key : Errc::no_such_version);
  ObjectInfo& info = version->record.info;
  if (info.delete_marker) return fail(newest ? Errc::no_such_key : Errc::method_not_allowed);
  if (!u.change.is_of(info)) return fail(Errc::conditional_conflict, "update: another version");
  const ObjectInfo before = info;
  Attributes changes = u.change.attributes;
  if (const std::string* touch = find_attribute(changes, touch_attribute)) {
    VB_ASSIGN(const bool renewed, renew_end(*u.bucket, *version, *touch, transaction.now_us()));
    u.info = info;
    name_version(u.info, bucket.info.versioning);
    if (!renewed) return {};
    std::erase_if(changes, [](const auto& change) { return change.first == touch_attribute; });
  }
  if (u.change.tags) info.tags = *u.change.tags;
  change_attributes(info.attributes, changes);
  if (u.change.legal_hold) info.lock.legal_hold = *u.change.legal_hold;
  if (u.change.retention) {
    VB_TRY(check_retention(info.lock, *u.change.retention, transaction.now_us(), u.change.bypass_governance));
    std::tie(info.lock.mode, info.lock.retain_until_us) = *u.change.retention;
  }
  put_version(transaction, bucket.id, u.key, *version);
  if (version->current) move_end(transaction, bucket.id, u.key, &before, &info);
  u.info = info;
  name_version(u.info, bucket.info.versioning);
  transaction.on_commit([p = &u, of_versions = !version->current] {
    p->bucket->feed->tell(KeyEvent::changed, p->key, p->info, of_versions);
  });
  return announce(transaction, u.change.announcement, bucket.id, u.info);
}

}  // namespace

Result<void> check_retention(const ObjectLock& lock, const std::pair<LockMode, int64_t>& wanted, int64_t now_us,
                             bool bypass_governance) {
  if (lock.mode == LockMode::none || now_us >= lock.retain_until_us) return {};
  const bool extends = wanted.first == lock.mode && wanted.second >= lock.retain_until_us;
  if (extends || (lock.mode == LockMode::governance && bypass_governance)) return {};
  return fail(Errc::access_denied, "Access Denied because object protected by object lock.");
}

Result<void> outcome_of(const Removal& removal, const Result<void>& committed) {
  if (committed && !removal.happened) return fail(Errc::no_such_key);
  return committed;
}

Change removal_change(std::shared_ptr<Removal> removal) {
  auto judge = [removal](Transaction& transaction) -> Result<void> {
    VB_TRY(removal->request.conditions.wanted.check());
    VB_ASSIGN(const BucketRecord bucket, check_bucket(transaction, *removal->bucket));
    VB_TRY(BoundCheck().of(transaction, bucket, *removal));
    return judge_removal(transaction, *removal, bucket);
  };
  return {.judge = std::move(judge), .bucket = removal->bucket, .place = {removal->bucket->id, removal->key}};
}

Change batch_removal_change(std::shared_ptr<BatchRemoval> batch) {
  auto judge = [batch](Transaction& transaction) { return judge_batch(transaction, *batch); };
  return {.judge = std::move(judge), .bucket = batch->bucket, .place = {batch->bucket->id}};
}

Change update_change(std::shared_ptr<Update> update) {
  auto judge = [update](Transaction& transaction) { return judge_update(transaction, *update); };
  return {.judge = std::move(judge),
          .bucket = update->bucket,
          .place = {update->bucket->id, update->key},
          .takes_space = true};
}

}  // namespace verbena::store
