// The removal of an object, of every door.
#pragma once

#include <string>
#include <string_view>

#include "s3/access/access.h"
#include "s3/service.h"

namespace verbena::s3 {

// Whether the removal may go on, and whether past a retention under governance when that is wanted.
Result<bool> authorize_delete(const Service& service, const Call& caller, const BucketAccess& access,
                              std::string_view key, std::string_view version_id,
                              const store::CommitConditions& conditions, bool wants_bypass);

// The one way to a removal, of every door. A removal without a version may make a delete marker.
Task<Result<store::Removed>> remove_with_room(Service& service, BucketAccessPtr access, std::string key,
                                              store::RemoveRequest request);

}  // namespace verbena::s3
