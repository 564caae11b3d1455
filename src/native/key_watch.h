// One watch, as the files of KeyWatches share it.
#pragma once

#include "base/clock.h"
#include "native/key_watches.h"

namespace verbena::native {

struct KeyWatches::Watch {
  uint64_t id = 0;
  std::shared_ptr<Lane> lane;
  uint64_t bucket = 0;  // as its feed numbers it
  std::string bucket_name, prefix;
  std::unique_ptr<WatchLimits::Place> place;

  // What waits, up to the number `last`: each change has the number after the one before it, and so has a gap.
  std::deque<store::KeyChangePtr> queue;
  uint64_t bytes = 0;
  uint64_t last = 0;
  uint64_t gap = 0;           // its number, until the client has it; 0: none
  bool gap_was_told = false;  // in an answer: the next loss is another gap
  Errc ended = Errc::ok;      // then nothing waits
  bool gone = false;

  // The question that waits for its answer.
  struct Parked {
    wire::Header header;
    SteadyClock::time_point until;
  };
  std::optional<Parked> parked;
  bool marked = false;                                 // in `ready_`
  SteadyClock::time_point heard = SteadyClock::now();  // when its client asked last, or was answered
  bool deaf = false;                                   // that is long ago: nothing is kept for it

  // By what it may be told, and when that was asked.
  s3::WatchRight right;
  uint64_t credentials_generation = 0;
  int64_t asked_s = 0;
  bool asking = false;
};

}  // namespace verbena::native
