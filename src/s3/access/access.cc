#include "s3/access/access.h"

#include <array>
#include <cstdint>
#include <functional>

#include "s3/access/bound.h"
#include "s3/access/ownership.h"
#include "s3/access/public_access.h"
#include "s3/access/quota.h"
#include "s3/document_reading.h"
#include "s3/documents/bucket_document.h"
#include "s3/documents/lifecycle.h"
#include "s3/names.h"

namespace verbena::s3 {
namespace {

constexpr size_t kept_slots = 256;  // direct-mapped: a collision evicts, nothing grows
thread_local std::array<BucketAccessPtr, kept_slots> kept_access;

BucketAccessPtr& slot_of(std::string_view bucket) {
  return kept_access[std::hash<std::string_view>{}(bucket) % kept_slots];
}

// The documents of an access record, in the order in which they are read.
enum class Part : uint8_t {
  policy,
  policy_binding,
  acl,
  ownership,
  public_access,
  quota,
  lifecycle,
  notification,
  encryption,
  etag,
  bound,
  logging
};
constexpr std::array part_names{policy_document,    policy_binding_document, acl_document,
                                ownership_document, public_access_document,  quota_document,
                                lifecycle_document, notification_document,   encryption_document,
                                etag_document,      bound_document,          logging_document};

Result<void> read_policy(const store::Document& text, BucketAccess& access) {
  if (text == nullptr) return {};
  auto policy = auth::parse_policy(*text, auth::PolicyKind::resource);
  if (!policy) return fail(Errc::corrupt_object, "access: bucket policy");
  access.policy = std::move(*policy);
  access.policy_public = auth::is_public(*access.policy);
  return {};
}

Result<void> read_acl(const store::Document& text, BucketAccess& access) {
  access.acl = private_acl(access.owner);
  if (text == nullptr) return {};
  auto acl = decode_acl(*text);
  if (!acl) return fail(Errc::corrupt_object, "access: bucket ACL");
  access.acl = std::move(*acl);
  return {};
}

Result<void> read_ownership(const store::Document& text, BucketAccess& access) {
  if (text == nullptr) return {};
  VB_ASSIGN(access.ownership, parse_ownership(*text));
  return {};
}

Result<void> read_block(const store::Document& text, BucketAccess& access) {
  if (text == nullptr) return {};
  VB_ASSIGN(access.block, parse_public_access(*text));
  return {};
}

Result<void> read_notifications(const store::Document& text, BucketAccess& access) {
  if (text == nullptr) return {};
  auto rules = parse_notification(*text, std::nullopt);
  if (!rules) return fail(Errc::corrupt_object, "access: bucket notifications");
  access.notifications = std::make_shared<const NotificationRules>(std::move(*rules));
  return {};
}

// An unreadable document counts as none, because it is not about access. A thousand rules take milliseconds, so they
// are parsed on another thread.
Task<Result<void>> read_lifecycle(store::Document text, BucketAccess& access) {
  if (text == nullptr) co_return Result<void>();
  const auto work = [&text] { return lifecycle_rules_of(*text); };
  Result<std::shared_ptr<const std::vector<LifecycleRule>>> rules;
  if (text->size() > read_at_once_bytes) {
    // No request is refused because that thread has much to do, perhaps for other callers: each waits for what came
    // before it, and there are no more than requests in progress.
    rules = co_await beside_loop_in_order("document", work);
  } else {
    rules = work();
  }
  if (rules && !(*rules)->empty()) access.lifecycle = *rules;
  co_return Result<void>();
}

// All documents about access are read at one moment: one from before a change and one from after it would make a record
// that never existed.
Task<Result<BucketAccessPtr>> load(Service& service, const std::string& bucket) {
  if (is_directory_bucket(bucket) && !service.express.enabled) {
    co_return fail(Errc::invalid_bucket_name, "directory buckets are turned off");
  }
  // The number from before the documents are read: a change in between makes this record stale.
  AccessGeneration::Mark mark{.bucket = service.access->place_of(bucket)};
  const uint64_t generation = service.access->now(mark.bucket);
  auto read = co_await service.store.bucket_and_documents(bucket, part_names);
  if (!read && read.error() == Errc::no_such_bucket) service.limits->forget(bucket, generation);
  VB_CO_ASSIGN(const auto found, std::move(read));
  const store::BucketInfo& info = found.bucket;
  const auto part = [&](Part which) -> const store::Document& { return found.documents[static_cast<size_t>(which)]; };
  auto access = std::make_shared<BucketAccess>();
  access->name = bucket;
  access->owner = info.owner;
  access->created_us = info.created_us;
  // Likewise of the owner, whom only the bucket names: its number from before it is looked up.
  mark.owner = service.access->place_of_owner(info.owner);
  mark.number = generation + service.access->owner_now(mark.owner);
  access->mark = mark;
  if (const auto account = find_account(service, info.owner)) access->owner_id = account->id;
  VB_CO_TRY(read_policy(part(Part::policy), *access));
  access->policy_binds_root = binds_root(part(Part::policy), part(Part::policy_binding));
  VB_CO_TRY(read_acl(part(Part::acl), *access));
  VB_CO_TRY(read_ownership(part(Part::ownership), *access));
  VB_CO_TRY(read_block(part(Part::public_access), *access));
  VB_CO_ASSIGN(access->limits, service.limits->of(bucket, info.created_us, part(Part::quota), generation));
  if (service.accounts != nullptr) access->owner_limits = service.accounts->limits_of(info.owner);
  if (service.bounds != nullptr) {
    VB_CO_ASSIGN(access->bound, service.bounds->of(bucket, info.created_us, info.owner, part(Part::bound), generation));
  }
  access->directory = is_directory_bucket(bucket);
  if (access->directory) {
    access->ownership = Ownership::bucket_owner_enforced;
    access->block = {true, true, true, true};
  }
  VB_CO_TRY(co_await read_lifecycle(part(Part::lifecycle), *access));
  VB_CO_TRY(read_notifications(part(Part::notification), *access));
  access->encrypts = part(Part::encryption) != nullptr;
  // Another server of a cluster may have set it; the request that finds it is not logged yet.
  if (part(Part::logging) != nullptr) service.buckets_log->store(true, std::memory_order_relaxed);
  access->opaque_etags = access->directory || part(Part::etag) != nullptr;
  co_return BucketAccessPtr(std::move(access));
}

}  // namespace

const BucketAccess* cached_access(const Service& service, std::string_view bucket) {
  const BucketAccess* const kept = slot_of(bucket).get();
  return kept != nullptr && service.access->is_current(kept->mark) && kept->name == bucket ? kept : nullptr;
}

BucketAccessPtr held_access(const Service& service, std::string_view bucket) {
  return cached_access(service, bucket) != nullptr ? slot_of(bucket) : nullptr;
}

Task<Result<BucketAccessPtr>> bucket_access(Service& service, const std::string& bucket) {
  if (auto kept = held_access(service, bucket)) co_return kept;
  VB_CO_ASSIGN(BucketAccessPtr access, co_await load(service, bucket));
  if (service.access->may_keep(bucket)) slot_of(bucket) = access;
  co_return access;
}

}  // namespace verbena::s3
