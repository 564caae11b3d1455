#include "s3/objects/watch.h"

#include "s3/access/authorize.h"
#include "s3/names.h"

namespace verbena::s3 {

Task<Result<WatchRight>> authorize_watch(Service& service, const Call& caller, const std::string& bucket,
                                         const std::string& prefix) {
  VB_CO_TRY(check_bucket_name(bucket));
  // The number from before: a change in between makes this right stale.
  WatchRight right;
  right.bucket = service.access->place_of(bucket);
  right.access_number = service.access->now(right.bucket);
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service, bucket));
  right.created_us = access->created_us;
  right.owner = access->owner;
  Listing list;
  if (!prefix.empty()) list.prefix = prefix;
  const Asked to_list{.action = action::list, .list = &list};
  VB_CO_TRY(authorize(service, caller, *access, to_list));
  const Asked to_list_versions{.action = action::list_versions, .list = &list};
  right.versions = !access->directory && authorize(service, caller, *access, to_list_versions).has_value();
  co_return right;
}

}  // namespace verbena::s3
