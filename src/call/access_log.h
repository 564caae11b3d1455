// The audit log: one line of JSON per request, of all doors: caller, request, outcome.
//
// A core only copies a line's fields into a buffer of its own; a thread formats and writes them, so that neither a slow
// disk nor formatting delays a core. Each caller has a share of the buffer (LogShares): lines beyond it are dropped and
// counted, and a line reports their number for each caller. When the oldest file is removed, the lines of callers with
// few lines are kept (access_log_history.h).
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
#include "call/access_log_shares.h"
#include "observe/line.h"
#include "observe/observers.h"

namespace verbena::call {

using AccessLine = observe::Line;

// {"time":"2026-01-02T03:04:05.678Z","door":"http","peer":"127.0.0.1",...}\n. Empty texts are left out.
std::string format_access_line(const AccessLine& line);

class AccessLog {
 public:
  struct Options {
    std::string path;        // "-": standard output
    uint64_t size_max = 0;   // a longer file becomes path.1; 0: never
    unsigned files_max = 8;  // path.1 to path.N are kept; then path.kept, with lines kept of removed files
  };
  // Opens the file for appending. bad_config with errno when it cannot be opened.
  static Result<std::unique_ptr<AccessLog>> open(Options options);
  ~AccessLog();  // writes what is buffered
  AccessLog(const AccessLog&) = delete;

  void write(const AccessLine& line);  // thread-safe
  // Lines that the file lacks: beyond their caller's share, or not written.
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  // Continues in a new file of the same name, after the old one was moved by another program. Any thread.
  void reopen();

 private:
  AccessLog(Options options, int fd);
  struct Shard {
    std::mutex mutex;  // used by one core, nearly always
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
  int write_some(std::string_view& text);  // leaves what was not written; 0, or errno
  void lose(uint64_t lines, int error);
  void tell_lost(Deadline now);
  bool rotates() const { return options_.size_max != 0 && options_.files_max != 0 && options_.path != "-"; }
  void rotate();
  bool open_again();

  static constexpr size_t shards_max = 16;
  const Options options_;
  int fd_;
  uint64_t size_ = 0;            // of the file; where it could not be rotated, since that was tried
  bool is_torn_ = false;         // ends inside a line
  bool is_oldest_kept_ = false;  // keep_history() has had path.N
  std::array<Shard, shards_max> shards_;
  std::atomic<uint64_t> dropped_{0};
  LogDrops untold_;  // the writer's own
  Deadline tell_drops_at_{};
  uint64_t untold_lost_ = 0;  // lines that could not be written, not yet reported in the server's log
  int lost_errno_ = 0;        // of the last of them
  Deadline tell_lost_at_{};
  std::atomic<uint32_t> pending_{0};
  std::atomic<bool> much_{false};  // a buffer fills up: write at once
  std::atomic<bool> stopping_{false}, reopen_{false};
  std::thread writer_;
  const observe::Observing observing_;
};

}  // namespace verbena::call
