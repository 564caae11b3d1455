// Where events go.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/task.h"

namespace verbena::events {

class Target {
 public:
  virtual ~Target() = default;
  // One message after the other, on its delivery's own loop, where it may block for as long as its timeout allows.
  // `delivered`: how many of them, from the first, the target has confirmed, also where it fails. Of the next one
  // nobody knows then: it comes again. invalid_request: the target answers, but does not take it.
  virtual Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) = 0;
  // What its server said of what the last deliver() left, in words for people; empty: nothing.
  virtual std::string said() const { return {}; }
  // Ends a deliver() that waits, if it can. On the loop.
  virtual void cancel() {}
  // The same for one that blocks. Any thread.
  virtual void cut() {}
  // Whether this server is still the one that delivers. Asked on the thread that runs deliver().
  void ask_before_each(std::function<bool()> gate) { gate_ = std::move(gate); }

 protected:
  // To be asked before each message, when nothing is left to do but to send it: a process may be frozen at any moment,
  // and another server goes on meanwhile. cancelled: nothing more is sent.
  Result<void> may_send() const {
    if (!gate_ || gate_()) return {};
    return fail(Errc::cancelled, "events: another server delivers now");
  }

 private:
  std::function<bool()> gate_;
};

}  // namespace verbena::events
