#include "s3/objects/delete.h"

#include "s3/access/authorize.h"
#include "s3/access/quota.h"
#include "s3/events/announce.h"
#include "s3/names.h"

namespace verbena::s3 {
Task<Result<store::Removed>> remove_with_room(Service& service, BucketAccessPtr access, std::string key,
                                              store::RemoveRequest request) {
  MarkerRoom room;
  if (request.version_id.empty() && access->has_quota()) {
    VB_CO_ASSIGN(room, co_await reserve_marker(service, *access));
    request.may_add_marker = room.may_add;
  }
  request.bucket_created_us = access->created_us;
  auto removed = co_await service.store.remove(access->name, key, std::move(request));
  if (!removed && removed.error() == Errc::quota_exceeded) count_marker_refusal();
  co_return removed;
}

Result<bool> authorize_delete(const Service& service, const Call& caller, const BucketAccess& access,
                              std::string_view key, std::string_view version_id,
                              const store::CommitConditions& conditions, bool wants_bypass) {
  const Action& removal = version_id.empty() ? action::delete_object : action::delete_version;
  const Asked asked{.action = removal, .key = key, .version_id = version_id, .conditions = &conditions};
  VB_TRY(authorize(service, caller, access, asked));
  return wants_bypass && authorize(service, caller, access, {.action = action::bypass_governance, .key = key});
}

Task<Result<store::Removed>> delete_object(Service& service, const Call& caller, const std::string& bucket,
                                           const std::string& key, store::RemoveRequest request) {
  VB_CO_TRY(check_bucket_name(bucket));
  VB_CO_TRY(check_key(key));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service, bucket));
  VB_CO_ASSIGN(request.bypass_governance, authorize_delete(service, caller, *access, key, request.version_id,
                                                           request.conditions, request.bypass_governance));
  const ObjectName name{key, request.version_id};
  VB_CO_TRY(co_await authorize_conditions(service, caller, *access, name, request.conditions));
  request.conditions.announcement = announce(service, *access, caller, EventCause::remove, key);
  co_return co_await remove_with_room(service, access, key, std::move(request));
}

}  // namespace verbena::s3
