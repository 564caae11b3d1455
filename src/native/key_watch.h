// One watch, shared by the files of KeyWatches.
#pragma once

#include "base/clock.h"
#include "native/key_watches.h"

namespace verbena::native {

struct KeyWatches::Watch {
  uint64_t id = 0;
  std::shared_ptr<SessionStream> stream;
  uint64_t bucket = 0;  // the feed's number
  std::string bucket_name, prefix;
  std::unique_ptr<WatchLimits::Place> place;

  // Waiting changes, up to the number `last`: numbers are consecutive, and a gap has one, too.
  std::deque<store::KeyChangePtr> queue;
  uint64_t bytes = 0;
  uint64_t last = 0;
  uint64_t gap = 0;           // its number, until the client has it; 0: none
  bool gap_was_told = false;  // in an answer: the next loss is a new gap
  Errc ended = Errc::ok;      // then nothing waits
  bool gone = false;

  // The request that waits for its answer.
  struct Parked {
    wire::Header header;
    SteadyClock::time_point until;
  };
  std::optional<Parked> parked;
  bool marked = false;                                 // in `ready_`
  SteadyClock::time_point heard = SteadyClock::now();  // time of the client's last request or answer
  bool deaf = false;                                   // that is long ago: nothing is queued for it

  // The rights that it is authorized by, and when they were evaluated.
  s3::WatchRight right;
  uint64_t credentials_generation = 0;
  int64_t asked_s = 0;
  bool asking = false;
};

}  // namespace verbena::native
