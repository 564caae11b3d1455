// Opens and reads objects.
#pragma once

#include <memory>
#include <string>

#include "store/local/lookup.h"

namespace verbena::store::local {

// For HEAD. Errors as read_record()'s, and method_not_allowed for a delete marker.
Result<ObjectInfo> stat_object(Engine& engine, const Bucket& bucket, VersionName name, Tier tier);
// Likewise, also of delete markers; without a version id the newest version.
Result<ObjectInfo> stat_version(Engine& engine, const Bucket& bucket, VersionName name);
// As stat_object(), and holds the object's bytes until the reader goes.
Result<std::shared_ptr<ObjectReader>> open_object(std::shared_ptr<Engine> engine,
                                                  const std::shared_ptr<const Bucket>& bucket, VersionName name,
                                                  Tier tier);

}  // namespace verbena::store::local
