// Yields for a coroutine with a long computation and no waits: lets others use the core before they notice a delay.
//
//   Turns turns;
//   for (const auto& entry : page) {
//     if (turns.due()) co_await turns.pass();
//     ...
//   }
#pragma once

#include <chrono>

#include "base/clock.h"
#include "base/task.h"

namespace verbena {

class Turns {
 public:
  // Time and not work is counted: the cost of a step may be up to clients (policies). Half of the 2 ms that a request
  // may hold its core: the other half is for the step in progress when the time is up.
  static constexpr std::chrono::milliseconds turn{1};

  bool due() const { return SteadyClock::now() >= until_; }
  // Resumes when the loop has had nothing else to do for a moment, its sockets and its fabrics included (Core polls
  // fabrics only then).
  Task<void> pass();

 private:
  Deadline until_ = deadline_in(turn);
};

}  // namespace verbena
