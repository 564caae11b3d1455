// Removing objects and versions, and changing what may change of one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "store/logic/context.h"

namespace verbena::store {

// What a removal needs, and leaves in `removed`.
struct Removal {
  std::shared_ptr<const Bucket> bucket;
  std::string key;
  RemoveRequest request;
  Removed removed;
  ObjectInfo told{};  // what others are told of it
  // Who may not know of versions is told of these alone: whether there is another current object now, or none any more,
  // and the older version that is there again.
  bool changes_current = false;
  std::optional<ObjectInfo> uncovered{};
  bool happened = false;  // something went, or a delete marker was made
};
Change removal_change(std::shared_ptr<Removal> removal);

// What a change needs, and leaves in `info`.
struct Update {
  std::shared_ptr<const Bucket> bucket;
  std::string key, version_id;
  ObjectChange change;
  ObjectInfo info;
};
Change update_change(std::shared_ptr<Update> update);

// access_denied: the retention there is may not become `wanted` (mode, retain_until_us) now.
Result<void> check_retention(const ObjectLock& lock, const std::pair<LockMode, int64_t>& wanted, int64_t now_us,
                             bool bypass_governance);

}  // namespace verbena::store
