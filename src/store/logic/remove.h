// Removal of objects and versions, and changes of a version's mutable properties.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "store/logic/context.h"

namespace verbena::store {

// The input of a removal; the result is in `removed`.
struct Removal {
  std::shared_ptr<const Bucket> bucket;
  std::string key;
  RemoveRequest request;
  Removed removed;
  ObjectInfo told{};  // reported to listeners
  // Reported to clients that may not see versions: whether the current object was replaced or removed, and the older
  // version that became current.
  bool changes_current = false;
  std::optional<ObjectInfo> uncovered{};
  bool happened = false;  // a version was removed, or a delete marker was made
};
Change removal_change(std::shared_ptr<Removal> removal);

// The input of a change; the result is in `info`.
struct Update {
  std::shared_ptr<const Bucket> bucket;
  std::string key, version_id;
  ObjectChange change;
  ObjectInfo info;
};
Change update_change(std::shared_ptr<Update> update);

// access_denied: the existing retention may not become `wanted` (mode, retain_until_us) now.
Result<void> check_retention(const ObjectLock& lock, const std::pair<LockMode, int64_t>& wanted, int64_t now_us,
                             bool bypass_governance);

}  // namespace verbena::store
