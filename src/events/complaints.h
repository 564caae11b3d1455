// What a target's server says when it does not take something: once in the log, however often it is tried again, and
// for operators who ask why an event waits.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace verbena::events {

// Not thread-safe.
class Complaints {
 public:
  explicit Complaints(std::string target) : target_(std::move(target)) {}
  // A delivery begins, of which nothing was said yet.
  void begin() { now_.clear(); }
  void say(std::string_view text) {
    std::string shown = log::printable(text, 200);
    now_ = shown;
    if (shown == last_) return;
    log::warn("events: {}: the server says: {}", target_, shown);
    last_ = std::move(shown);
  }
  // It takes events again: the next complaint is news.
  void forget() { last_.clear(); }
  const std::string& said() const { return now_; }

 private:
  const std::string target_;
  std::string last_, now_;
};

}  // namespace verbena::events
