// The audit log: one line of JSON per request, of all doors. Who asked, for what, how it went.
//
// A core only copies what is to be said into a buffer of its own; a thread makes lines of it and writes them, so that
// neither a slow disk nor formatting holds up a core. Who asks has a share of the buffer (LogShares): what is beyond it
// goes unlogged, is counted, and a line says of which caller how many. A file that moves on for the last time leaves
// the lines of those that made few (access_log_history.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/result.h"
#include "http/access_log_shares.h"
#include "observe/line.h"
#include "observe/observers.h"

namespace verbena::http {

using AccessLine = observe::Line;

// {"time":"2026-01-02T03:04:05.678Z","door":"http","peer":"127.0.0.1",...}\n. Empty texts are left out.
std::string format_access_line(const AccessLine& line);

class AccessLog {
 public:
  struct Options {
    std::string path;        // "-": standard output
    uint64_t size_max = 0;   // a longer file becomes path.1; 0: never
    unsigned files_max = 8;  // path.1 to path.N are kept; behind them, in path.kept, what others have not displaced
  };
  // Appends to the file. bad_config with errno when it cannot be opened.
  static Result<std::unique_ptr<AccessLog>> open(Options options);
  ~AccessLog();  // writes what is buffered
  AccessLog(const AccessLog&) = delete;

  void write(const AccessLine& line);  // thread-safe
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  // Goes on in a new file of the same name: after somebody else has moved it. Any thread.
  void reopen();

 private:
  AccessLog(Options options, int fd);
  struct Shard {
    std::mutex mutex;  // of one core, nearly always
    std::string records;
    LogShares shares;
    LogDrops drops;
  };
  Shard& own_shard();
  void run();
  void wake();
  void drain();
  void tell_drops(std::string& lines);
  void add(std::string& lines, const AccessLine& line);
  void put_out(std::string_view lines);
  void rotate();
  bool open_again();

  static constexpr size_t shards_max = 16;
  const Options options_;
  int fd_;
  uint64_t size_ = 0;  // of the file
  std::array<Shard, shards_max> shards_;
  std::atomic<uint64_t> dropped_{0};
  LogDrops untold_;  // the writer's own
  Deadline tell_drops_at_{};
  std::atomic<uint32_t> pending_{0};
  std::atomic<bool> much_{false};  // some buffer is filling: write at once
  std::atomic<bool> stopping_{false}, reopen_{false};
  std::thread writer_;
  const observe::Observing observing_;
};

}  // namespace verbena::http
