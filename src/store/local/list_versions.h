// Pages of versions.
#pragma once

#include "store/local/engine.h"

namespace verbena::store::local {

// Bounded work per call: a common prefix, and the versions before a marker, are skipped by a seek.
Result<VersionPage> list_versions(Engine& engine, const Bucket& bucket, const ListVersionsRequest& request);

}  // namespace verbena::store::local
