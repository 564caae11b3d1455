// GET as its HTTP and token forms share it.
#pragma once

#include "s3/context.h"
#include "s3/objects/range.h"

namespace verbena::s3 {

// As open_object(); `seen` (may be null) gets the object's info also when its conditions or range refuse it. `reader`
// (may be null): what the store gives for this request, where it was asked already.
Task<Result<OpenObject>> open_object_seen(Service& service, const Caller& caller, const GetRequest& request,
                                          store::ObjectInfo* seen,
                                          std::shared_ptr<store::ObjectReader> reader = nullptr);

// Status and headers of a GET or HEAD that succeeds.
Result<void> fill_object_response(Context& context, const store::ObjectInfo& info, const Extent& extent,
                                  const GetRequest& request);

}  // namespace verbena::s3
