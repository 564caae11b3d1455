// RocksDB on the engine's file-system seam, so that the index meets the same injected faults as the volumes.
#pragma once

#include <rocksdb/env.h>

#include <memory>

#include "store/local/file_system.h"

namespace verbena::store::local {

// `fs` must outlive the Env.
std::unique_ptr<rocksdb::Env> make_seam_env(FileSystem& fs);

}  // namespace verbena::store::local
