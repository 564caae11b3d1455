// Time of one request by stage. A door makes one for a request that an observer watches, and every room that the
// request passes adds to it. Without one no clock is read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/ticks.h"

namespace verbena {

enum class Stage : uint8_t {
  read,    // the head or message, and who sent it
  open,    // look-up and authorization
  memory,  // waits for a part of the arena
  disk,    // waits for the store: reads, writes, the commit
  wire,    // the payload's bytes: into or out of socket, message or window
  reply,   // the answer, until it was handed over
};
inline constexpr size_t stage_count = 6;

// On one core's thread at a time, as its request is.
struct RequestTrace {
  struct Times {
    uint64_t began = 0, ended = 0;  // ticks() of the first entry and the last leave; 0: never entered
    uint64_t ns = 0;                // sum of all entries
  };
  std::array<Times, stage_count> stages{};

  void add(Stage stage, uint64_t began, uint64_t ended) {
    Times& times = stages[static_cast<size_t>(stage)];
    if (times.began == 0) times.began = began;
    times.ended = std::max(times.ended, ended);
    times.ns += ns_between(began, ended);
  }
  uint64_t ns(Stage stage) const { return stages[static_cast<size_t>(stage)].ns; }
};

// Adds its lifetime to a stage. `trace` may be null.
class ScopedStage {
 public:
  ScopedStage(RequestTrace* trace, Stage stage)
      : trace_(trace), stage_(stage), began_(trace == nullptr ? 0 : ticks()) {}
  ~ScopedStage() { end(); }
  ScopedStage(const ScopedStage&) = delete;
  void end() {
    if (trace_ != nullptr) trace_->add(stage_, began_, ticks());
    trace_ = nullptr;
  }

 private:
  RequestTrace* trace_;
  const Stage stage_;
  const uint64_t began_;
};

}  // namespace verbena
