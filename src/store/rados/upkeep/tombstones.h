// Version tokens of keys of which nothing is left. Each change of a key compares its version token, and while the token
// exists no earlier call can succeed, however late it arrives. So the version token stays when the key's last object,
// version or upload goes, with the key's last id and time. After a while it is swept, together with the row that
// records its age (the tombstone), by a call that raises the tablet's fence. A change of a key without a version token
// compares the fence, so one that was sent before the sweep fails. The fence has the greatest swept id, so that ids of
// a key always grow, and with them the order of its versions.
//
// A tombstone is written by each change that removes rows of a key and writes none, and has the version token of that
// change. The change need not know whether something is left; the sweep does. It reads the key's version token and its
// object in one call, then whether it has other versions, and sweeps the token only if it is the tombstone's and there
// is neither. Meanwhile others may change the key, or split and join its tablet. Each change of a key replaces the
// version token by one that was never there, and what becomes of a tablet raises its bucket's epoch. The sweep compares
// both, so when it is made all is as it was read. A tombstone whose key is in use goes without its token: the change
// that removes the rest writes another one. An open upload alone keeps no token: a change that rests on it gives the
// key one first (RadosCatalogue::give_version_token).
//
// Servers that know no fences must not run beside a sweep: their late calls compare the absence of a token, and nothing
// else. All that know format_of_fences compare them (formats.h).
//
// Receipts (fate.h) of dead servers are swept likewise.
#pragma once

#include <chrono>
#include <set>

#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

// The age of swept tokens. Times of a key grow over removals if the servers' clocks differ by less than this.
inline constexpr std::chrono::seconds tombstone_life{120};

// Sweeps the tablet's tombstones older than that, at the time `now_us`.
Task<Result<void>> sweep_tablet(Registry& registry, BucketPtr bucket, size_t tablet, int64_t now_us,
                                std::set<uint64_t> living);

}  // namespace verbena::store::rados
