// For a coroutine that goes through much and waits for nothing: it lets others have the core before they notice.
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
  // Time and not work is counted: what one step costs may be up to strangers (policies). Half of the 2 ms that a
  // request may hold its core: the other half is for the step that is under way when the time is up.
  static constexpr std::chrono::milliseconds turn{1};

  bool due() const { return SteadyClock::now() >= until_; }
  // Resumes when the loop has had nothing else to do for a moment: its sockets, its fabrics (Core polls them only
  // then).
  Task<void> pass();

 private:
  Deadline until_ = deadline_in(turn);
};

}  // namespace verbena
