// Appends: a PUT whose bytes go to the end of what is there (PutRequest::append).
#pragma once

#include <optional>

#include "s3/access/access.h"
#include "s3/service.h"

namespace verbena::s3 {

// Before the bytes come: checks that the bucket takes appends, and puts the offset and what can be known of the object
// into the request. not_implemented, access_denied, invalid_request, invalid_write_offset.
Task<Result<void>> prepare_append(Service& service, const Call& call, const BucketAccess& access, PutRequest& request,
                                  std::optional<uint64_t> size);

}  // namespace verbena::s3
