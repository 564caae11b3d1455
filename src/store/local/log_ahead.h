// Zeros that the index's log has ahead of its records. A log that grows with each record costs the file system a
// transaction of its own for each sync; a record that overwrites zeros changes no metadata, so a sync is a flush.
//
// A thread writes the zeros in small pieces: while the log is short there are none, then `step` bytes each time when
// less than half of that is left. The zeros need no sync of their own, since what a sync of the log promises are the
// records before them. Zeros at the end of the newest log are no damage (log_scan.h), and RocksDB passes over them. All
// other logs end with their last record: a log is cut there, durably, before the next one is made.
#pragma once

#include <rocksdb/env.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "store/local/file_system.h"

namespace verbena::store::local {

struct LogAheadOptions {
  FileSystem* fs = nullptr;     // of the logs; overwrites in place
  uint64_t step = 0;            // 0: no zeros
  uint64_t from = 256 * KiB;    // a shorter log has none
  uint64_t free_bytes_min = 0;  // with less free than this and four steps no more are written
};

class LogAhead {
 public:
  using Options = LogAheadOptions;
  class Log;

  explicit LogAhead(Options options);
  ~LogAhead();
  LogAhead(const LogAhead&) = delete;
  LogAhead& operator=(const LogAhead&) = delete;

  // The files of `below`, with logs in front of which zeros are written. Must not outlive this object.
  std::unique_ptr<rocksdb::Env> make_env(rocksdb::Env* below);
  // Of the newest log, now.
  uint64_t bytes_ahead();
  void wait_idle();  // until the thread has nothing to do
  // A log that could not be synced or cut fails every later sync. Before the index moves past its logs: no more.
  void forgive_failures();

  // Used by the logs.
  Result<std::shared_ptr<Log>> make_log(const std::string& path);
  void want(const std::shared_ptr<Log>& log);

 private:
  void loop();
  bool has_space(const Log& log);

  const Options options_;
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::shared_ptr<Log> newest_, wanted_;
  std::vector<std::weak_ptr<Log>> logs_;
  bool working_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace verbena::store::local
