// The last lines of the log, for queries to the running server. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"

namespace verbena::log {

struct Line {
  uint64_t number = 0;  // from 1, of all lines of the process
  int64_t time_us = 0;  // since the epoch
  Level level = Level::info;
  std::string text;
};

class Ring {
 public:
  static constexpr size_t lines_max = 2000;
  static constexpr size_t line_bytes_max = 1024;  // a longer one is cut

  void add(Level level, std::string_view text);
  struct Found {
    std::vector<Line> lines;  // oldest first
    uint64_t last = 0;        // number of the newest line examined: the next call's `after`
    uint64_t lost = 0;        // lines after `after` that were overwritten
  };
  // The lines after `after` of level `least` or above, at most `most` (at least 1): the oldest ones, or if `after` is 0
  // the newest.
  Found read(uint64_t after, Level least, size_t most) const;

 private:
  mutable std::mutex mutex_;
  std::deque<Line> lines_;
  uint64_t last_ = 0;
};

// This process's: everything printed by write() (base/log.h).
Ring& ring();

std::string_view name_of(Level level);

}  // namespace verbena::log
