// Opens and reads objects.
#pragma once

#include <memory>
#include <string>

#include "store/local/engine.h"

namespace verbena::store::local {

// For HEAD. would_block with Tier::cached when the disk would be needed; no_such_key.
Result<ObjectInfo> stat_object(Engine& engine, const Bucket& bucket, std::string_view key, Tier tier);
// Likewise, and holds the object's bytes until the reader goes.
Result<std::shared_ptr<ObjectReader>> open_object(std::shared_ptr<Engine> engine,
                                                  const std::shared_ptr<const Bucket>& bucket, std::string_view key,
                                                  Tier tier);

}  // namespace verbena::store::local
