// What a target's server says when it does not take something: once in the log, however often it is tried again.
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
  void say(std::string_view text) {
    std::string shown = log::printable(text, 200);
    if (shown == last_) return;
    log::warn("events: {}: the server says: {}", target_, shown);
    last_ = std::move(shown);
  }
  // It takes events again: the next complaint is news.
  void forget() { last_.clear(); }

 private:
  const std::string target_;
  std::string last_;
};

}  // namespace verbena::events
