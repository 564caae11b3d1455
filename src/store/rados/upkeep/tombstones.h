// Version tokens of keys whose object went. Each change of a key compares its version token, and while there is one no
// call that was sent before comes true again, however late it lands: so a version token stays when its object goes,
// with the last id and the last time of the key. After a while it is swept together with the row that says since when
// it stands there for nothing, by a call that raises the tablet's fence. A change of a key without a version token
// compares the fence; one that was sent before that call finds another fence. The fence keeps the greatest id of what
// was swept, so that ids of a key grow for good.
//
// Likewise receipts (fate.h) of servers that are gone.
#pragma once

#include <chrono>
#include <set>

#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

// Beyond that servers' clocks may differ in what the next object of such a key gets for its time.
inline constexpr std::chrono::seconds tombstone_life{120};

// Those of the tablet that are older than that, at the time `now_us`.
Task<Result<void>> sweep_tablet(Registry& registry, BucketPtr bucket, size_t tablet, int64_t now_us,
                                std::set<uint64_t> living);

}  // namespace verbena::store::rados
