// RocksDB on the engine's file-system seam, so that the index meets the same injected faults as the volumes.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/io_status.h>

#include <memory>

#include "store/local/file_system.h"

namespace verbena::store::local {

// An error of the seam in RocksDB's terms.
rocksdb::IOStatus to_io_status(const Error& error);
template <class T>
rocksdb::IOStatus to_io_status(const Result<T>& result) {
  return result ? rocksdb::IOStatus::OK() : to_io_status(result.error());
}

// `fs` must outlive the Env.
std::unique_ptr<rocksdb::Env> make_seam_env(FileSystem& fs);

}  // namespace verbena::store::local
