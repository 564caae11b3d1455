// Listings of objects.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "s3/access/authorize.h"
#include "s3/names.h"
#include "s3/service.h"

namespace verbena::s3 {

Task<Result<store::ListPage>> list_objects(Service& service, const Call& caller, const std::string& bucket,
                                           store::ListRequest request) {
  VB_CO_TRY(check_bucket_name(bucket));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service, bucket));
  const Listing listing = listing_of(caller, request);
  const Asked asked{.action = action::list, .list = &listing};
  VB_CO_TRY(authorize(service, caller, *access, asked));
  if (request.max_keys < 0) co_return fail(Errc::invalid_argument, bad_max_keys);
  if (request.max_keys == 0) {
    co_return store::ListPage{};
  }
  request.max_keys = std::min(request.max_keys, 1000);
  co_return co_await service.store.list(bucket, std::move(request));
}

}  // namespace verbena::s3
