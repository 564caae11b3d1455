// Finds and opens objects.
#pragma once

#include <memory>
#include <string>

#include "store/logic/context.h"
#include "store/logic/lookup.h"

namespace verbena::store {

// For HEAD. Errors as read_record()'s, and method_not_allowed for a delete marker.
Result<ObjectInfo> stat_object(View& rows, const Bucket& bucket, VersionName name);
// Likewise, also of delete markers; without a version id the newest version.
Result<ObjectInfo> stat_version(View& rows, const Bucket& bucket, VersionName name);
// As stat_object(), and holds the object's bytes until the reader is destroyed.
Result<std::shared_ptr<ObjectReader>> open_object(Blobs& blobs, View& rows, const Bucket& bucket, VersionName name);

}  // namespace verbena::store
