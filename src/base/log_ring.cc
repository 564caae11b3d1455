#include "base/log_ring.h"

#include <algorithm>

#include "base/clock.h"

namespace verbena::log {

void Ring::add(Level level, std::string_view text) {
  Line line{.number = 0, .time_us = system_clock().now_us(), .level = level, .text = {}};
  line.text = text.substr(0, line_bytes_max);
  const std::lock_guard lock(mutex_);
  line.number = ++last_;
  lines_.push_back(std::move(line));
  if (lines_.size() > lines_max) lines_.pop_front();
}

Ring::Found Ring::read(uint64_t after, Level least, size_t most) const {
  const std::lock_guard lock(mutex_);
  Found found;
  found.last = last_;
  // A number of an earlier process, or made up: then from the beginning.
  const uint64_t from = after > last_ ? 0 : after;
  const uint64_t first = lines_.empty() ? last_ + 1 : lines_.front().number;
  if (from != 0 && first > from + 1) found.lost = first - from - 1;
  const auto wanted = [&](const Line& line) { return line.number > from && line.level >= least; };
  most = std::max<size_t>(most, 1);
  if (from == 0) {
    for (auto line = lines_.rbegin(); line != lines_.rend() && found.lines.size() < most; ++line) {
      if (wanted(*line)) found.lines.push_back(*line);
    }
    std::ranges::reverse(found.lines);
    return found;
  }
  for (const Line& line : lines_) {
    if (!wanted(line)) continue;
    if (found.lines.size() == most) {
      found.last = found.lines.back().number;
      break;
    }
    found.lines.push_back(line);
  }
  return found;
}

// Lives for the whole program: threads may log until the very end.
Ring& ring() {
  static auto* const instance = new Ring;
  return *instance;
}

std::string_view name_of(Level level) {
  switch (level) {
    case Level::trace:
      return "trace";
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warn:
      return "warn";
    case Level::error:
      return "error";
  }
  return "info";
}

}  // namespace verbena::log
