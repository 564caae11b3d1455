// Version tokens of removed objects. Each change of a key compares its version token, and while the token exists no
// earlier call can succeed, however late it arrives. So the version token stays when its object is removed, with the
// key's last id and time. After a while it is swept, together with the row that records its age, by a call that raises
// the tablet's fence. A change of a key without a version token compares the fence, so one that was sent before the
// sweep fails. The fence has the greatest swept id, so that ids of a key always grow.
//
// Receipts (fate.h) of dead servers are swept likewise.
#pragma once

#include <chrono>
#include <set>

#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

// The age of swept tokens. Times of a key grow over removals if the servers' clocks differ by less than this.
inline constexpr std::chrono::seconds tombstone_life{120};

// Sweeps the tablet's tokens older than that, at the time `now_us`.
Task<Result<void>> sweep_tablet(Registry& registry, BucketPtr bucket, size_t tablet, int64_t now_us,
                                std::set<uint64_t> living);

}  // namespace verbena::store::rados
