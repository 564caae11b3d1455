// Buckets: create, head, delete, list.
#include <fmt/core.h>

#include "s3/access/authorize.h"
#include "s3/access/quota.h"
#include "s3/documents/bucket_document.h"
#include "s3/express/directory.h"
#include "s3/names.h"
#include "s3/service.h"

namespace verbena::s3 {

Task<Result<void>> create_bucket(Service& service, const Call& caller, const std::string& bucket,
                                 store::Durability durability, bool object_lock, std::string_view location) {
  VB_CO_TRY(authorize_service(service, caller, action::create_bucket, bucket, location));
  VB_CO_TRY(check_bucket_name(bucket));
  if (is_directory_bucket(bucket)) VB_CO_TRY(check_zone(service, bucket));
  store::BucketInfo info;
  info.name = bucket;
  info.created_us = service.clock.now_us();
  info.owner = owner_of(caller);
  info.durability = durability;
  if (object_lock) {
    info.versioning = store::Versioning::enabled;
    info.lock.enabled = true;
  }
  auto created = co_await service.store.create_bucket(std::move(info));
  note_change(service, bucket, created);
  if (!created && created.error() == Errc::bucket_already_exists) {
    VB_CO_ASSIGN(const store::BucketInfo present, co_await service.store.bucket(bucket));
    if (present.owner == owner_of(caller)) co_return fail(Errc::bucket_already_owned_by_you, "create bucket");
  }
  co_return created;
}

Task<Result<store::BucketInfo>> head_bucket(Service& service, const Call& caller, const std::string& bucket) {
  VB_CO_TRY(co_await authorize_bucket(service, caller, bucket, action::list));
  co_return co_await service.store.bucket(bucket);
}

Task<Result<void>> delete_bucket(Service& service, const Call& caller, const std::string& bucket) {
  VB_CO_TRY(co_await authorize_bucket(service, caller, bucket, action::delete_bucket));
  auto removed = co_await service.store.remove_bucket(bucket);
  if (removed) service.limits->forget(bucket, service.access->now(bucket));
  note_change(service, bucket, removed);
  co_return removed;
}

Task<Result<std::vector<store::BucketInfo>>> list_buckets(Service& service, const Call& caller) {
  VB_CO_TRY(authorize_service(service, caller, action::list_buckets, {}));
  VB_CO_ASSIGN(auto buckets, co_await service.store.buckets());
  const std::string_view owner = owner_of(caller);
  std::erase_if(buckets, [&](const store::BucketInfo& bucket) { return bucket.owner != owner; });
  co_return buckets;
}

}  // namespace verbena::s3
