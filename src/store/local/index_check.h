// Examines the index's files before RocksDB opens, and so changes, them. It distinguishes:
//
//  - A torn end of the log, from a power loss. These changes were never acknowledged as durable; a start drops them, as
//    if they had never been requested.
//  - Damage to durable changes. RocksDB would continue without them and without all that follow, and the space of lost
//    objects would be freed. A start must refuse.
//
// Each batch in the log ends with a mark (log_mark): the sequence number up to which all was durable when the batch was
// written. Damage before a batch whose mark reaches past it is damage to durable changes. Damage with nothing after it
// is a torn end, unless the record was written whole and has changed since (log_scan.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "store/local/file_system.h"

namespace verbena::store::local {

std::string log_mark(uint64_t durable_sequence);

struct IndexDamage {
  std::filesystem::path file;
  uint64_t offset = 0;
  std::string what;
};

struct IndexFiles {
  bool fresh = false;     // there is no index, and no trace of one
  bool torn_end = false;  // the log ends in changes that were never acknowledged as durable
  std::vector<IndexDamage> damage;
  bool log_damaged = false;     // some of the damage is in logs; if not, accept_data_loss cannot help
  uint64_t changes_behind = 0;  // whole batches of the log after its first damage
};

// A whole batch of changes (a rocksdb::WriteBatch) after damage in the log; called in their order.
using BatchBehind = std::function<void(std::string_view batch)>;

// Changes nothing. `first_log_needed`: the number of the first log whose changes are not all in tables; called only
// when the logs look damaged, since it opens the index. Errors: those of reading.
Result<IndexFiles> check_index_files(FileSystem& fs, const std::filesystem::path& directory,
                                     const std::function<Result<uint64_t>()>& first_log_needed,
                                     const BatchBehind& behind = {});

}  // namespace verbena::store::local
