// The removal of an object, of every door.
#pragma once

#include <string>
#include <string_view>

#include "s3/access/access.h"
#include "s3/service.h"

namespace verbena::s3 {

// Authorizes the removal, and bypassing governance if requested.
Result<bool> authorize_delete(const Service& service, const Call& caller, const BucketAccess& access,
                              std::string_view key, std::string_view version_id,
                              const store::CommitConditions& conditions, bool wants_bypass);

// All removals of all doors go through here. A removal without a version may make a delete marker.
Task<Result<store::Removed>> remove_with_room(Service& service, BucketAccessPtr access, std::string key,
                                              store::RemoveRequest request);

}  // namespace verbena::s3
