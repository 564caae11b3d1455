// Keeps a sync of the index's log and a failing write to it apart: RocksDB asserts that the writer of a log that has
// failed is not asked for a sync, and says of the failure only when the write returns. So a write that has failed waits
// here, in the file below RocksDB, until no sync is under way, and none begins after it.
#pragma once

#include <rocksdb/env.h>

#include <memory>
#include <mutex>

#include "base/result.h"

namespace verbena::store::local {

class LogGate {
 public:
  // Runs `sync`; io_error once a write has failed.
  template <class Sync>
  Result<void> sync(const Sync& sync) {
    const std::lock_guard lock(mutex_);
    if (failed_) return fail(Errc::io_error, "index: a write to the log failed");
    return sync();
  }
  void note_failure();
  void reset();  // RocksDB has another log

 private:
  std::mutex mutex_;
  bool failed_ = false;
};

// The files of `below` (null: the machine's), logs among them behind the gate. Both outlive the Env.
std::unique_ptr<rocksdb::Env> make_gated_env(rocksdb::Env* below, LogGate& gate);

}  // namespace verbena::store::local
