// A destination of events.
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
  // Sends one message after the other, on its delivery's own loop, where it may block for as long as its timeout
  // allows. `delivered`: how many of them, from the first, the target has confirmed, also on failure. The state of the
  // next one is then unknown: it is sent again. invalid_request: the target answers, but refuses it.
  virtual Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) = 0;
  // The server's message about what the last deliver() left undelivered, for operators; empty: none.
  virtual std::string said() const { return {}; }
  // Ends a deliver() that blocks, if it can. Any thread.
  virtual void cut() {}
  // Sets the check that this server is still the leader. Called on the thread that runs deliver().
  void ask_before_each(std::function<bool()> gate) { gate_ = std::move(gate); }

 protected:
  // Must be called immediately before each message is sent: a process may be frozen at any moment, and another server
  // takes over meanwhile. cancelled: send nothing more.
  Result<void> may_send() const {
    if (!gate_ || gate_()) return {};
    return fail(Errc::cancelled, "events: another server delivers now");
  }

 private:
  std::function<bool()> gate_;
};

}  // namespace verbena::events
