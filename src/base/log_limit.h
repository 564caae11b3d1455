// Lines in the server's own log that clients cause. Written without a bound they would hold the threads that serve
// (standard error is written synchronously), fill the disk that keeps them, and push what operators need out of
// the ring.
//
//   static log::Limit limit;
//   limit.info("local: client joined peer={}", peer);
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace verbena::log {

// Of one place in the code, for all clients. The first `lines_max` lines of each `interval` are written; the first one
// of a later interval tells how many were left out. Thread-safe.
class Limit {
 public:
  static constexpr uint64_t lines_max = 20;
  static constexpr std::chrono::seconds interval{10};

  // Whether a line may be written now, and how many before it were not.
  std::optional<uint64_t> admit(SteadyClock::time_point now = SteadyClock::now()) {
    std::lock_guard lock(mutex_);
    if (now >= until_) {
      until_ = now + interval;
      written_ = 0;
    }
    if (written_ == lines_max) {
      ++left_out_;
      return std::nullopt;
    }
    ++written_;
    return std::exchange(left_out_, 0);
  }

  template <class... Args>
  void at(Level level, fmt::format_string<Args...> format, Args&&... args) {
    if (!enabled(level)) return;
    const auto left_out = admit();
    if (!left_out) return;
    std::string line = fmt::format(format, std::forward<Args>(args)...);
    if (*left_out != 0) line += fmt::format(" ({} such lines before it were left out)", *left_out);
    write(level, line);
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    at(Level::info, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    at(Level::warn, format, std::forward<Args>(args)...);
  }

 private:
  std::mutex mutex_;
  SteadyClock::time_point until_{};
  uint64_t written_ = 0, left_out_ = 0;
};

}  // namespace verbena::log
