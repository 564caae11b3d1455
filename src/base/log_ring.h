// The last lines of the log, for who asks the running server for them. Thread-safe.
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
    uint64_t last = 0;        // number of the newest line that was looked at: where to go on
    uint64_t lost = 0;        // lines after `after` that the ring has no more
  };
  // The lines behind `after` that are at least `least`, not more than `most` of them (at least 1): the oldest ones, or
  // where `after` is 0 the newest.
  Found read(uint64_t after, Level least, size_t most) const;

 private:
  mutable std::mutex mutex_;
  std::deque<Line> lines_;
  uint64_t last_ = 0;
};

// Of this process: what write() (base/log.h) has put out.
Ring& ring();

std::string_view name_of(Level level);

}  // namespace verbena::log
