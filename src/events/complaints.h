// Errors that a target's server reports for events that it refuses: logged once, however often delivery is tried again,
// and shown to operators with the waiting event.
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
  // Begins a delivery, without an error so far.
  void begin() { now_.clear(); }
  void say(std::string_view text) {
    std::string shown = log::printable(text, 200);
    now_ = shown;
    if (shown == last_) return;
    log::warn("events: {}: the server says: {}", target_, shown);
    last_ = std::move(shown);
  }
  // The target accepts events again: the next error is logged anew.
  void forget() { last_.clear(); }
  const std::string& said() const { return now_; }

 private:
  const std::string target_;
  std::string last_, now_;
};

}  // namespace verbena::events
