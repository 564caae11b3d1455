// Removal of objects and versions, and changes of a version's mutable properties.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  bool happened = false;       // a version was removed, or a delete marker was made
  bool event_refused = false;  // the queue of its event is full, and nothing else hinders it
  Result<void> ready{};        // of a batch: an error leaves it out, with that as its outcome
};
Change removal_change(std::shared_ptr<Removal> removal);

// Removals from one bucket with one commit. One that is refused with precondition_failed has that as its outcome, and
// hinders no other; so has one that finds nothing to remove (no_such_key), and one that is not ready. Any other error
// refuses all; the caller tries each by itself then, if the error may be one key's. Of a full queue of events the one
// that it refused is marked (event_refused).
struct BatchRemoval {
  std::shared_ptr<const Bucket> bucket{};
  std::vector<Removal> removals{};
  std::vector<Result<void>> outcomes{};  // one of each
};
Result<void> outcome_of(const Removal& removal, const Result<void>& committed);
// For engines with their rows in one place (Catalogue::has_one_place()).
Change batch_removal_change(std::shared_ptr<BatchRemoval> batch);

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
