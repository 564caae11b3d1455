// Looks at the index's files before RocksDB opens, and so changes, them. What it must tell apart:
//
//  - An end of the log that a power loss tore off. Nobody was told that these changes are durable; a start goes on
//    without them, as if they had never been asked for.
//  - Damage to what was durable. RocksDB would go on without it and without all that follows, and the space of what is
//    lost would be given back. A start must refuse.
//
// Each batch in the log ends with a mark (log_mark): the sequence number up to which all was durable when the batch was
// written. Damage before a batch whose mark reaches past it is damage to durable changes. Damage with nothing behind it
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
  bool torn_end = false;  // the log ends in what nobody was told is durable
  std::vector<IndexDamage> damage;
  bool log_damaged = false;     // some of that damage is to logs; else no start can go on without it
  uint64_t changes_behind = 0;  // whole batches of the log behind its first damage
};

// A whole batch of changes (a rocksdb::WriteBatch) that lies behind damage in the log; in their order.
using BatchBehind = std::function<void(std::string_view batch)>;

// Changes nothing. `first_log_needed`: the number of the first log whose changes are not all in tables; asked only when
// the logs look damaged, since it costs an opening of the index. Errors: those of reading.
Result<IndexFiles> check_index_files(FileSystem& fs, const std::filesystem::path& directory,
                                     const std::function<Result<uint64_t>()>& first_log_needed,
                                     const BatchBehind& behind = {});

}  // namespace verbena::store::local
