// Finds heads outside of a judge, for calls that read.
#pragma once

#include <string_view>

#include "store/logic/object_ops.h"

namespace verbena::store {

struct VersionName {
  std::string_view key;
  std::string_view version_id;  // empty: the current object
};

// no_such_key, no_such_version, invalid_version. A delete marker is found when it is named.
Result<ObjectRecord> read_record(View& rows, const Bucket& bucket, VersionName name);

// Likewise, and without a version id finds the newest version, be it a delete marker.
Result<ObjectRecord> read_newest(View& rows, const Bucket& bucket, VersionName name);

}  // namespace verbena::store
