// Appends: a PUT that adds its bytes to the end of the object (PutRequest::append).
#pragma once

#include <optional>

#include "s3/access/access.h"
#include "s3/service.h"

namespace verbena::s3 {

// Called before the bytes arrive: checks that the bucket takes appends, and adds the offset and the object's known
// properties to the request. not_implemented, access_denied, invalid_request, invalid_write_offset.
Task<Result<void>> prepare_append(Service& service, const Call& call, const BucketAccess& access, PutRequest& request,
                                  std::optional<uint64_t> size);

}  // namespace verbena::s3
