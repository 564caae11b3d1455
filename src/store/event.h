// What a change leaves for those who want to know of it: rows of events, written with the change itself, so that there
// is never one without the other. Who wants to know, and what an event says, is the matter of whoever asks for the
// change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/store.h"

namespace verbena::store {

// What becomes of a key by a change that is being made.
struct Happened {
  const ObjectInfo& info;  // what was made, or changed; of a removal the version that went, or the delete marker
  uint64_t bucket = 0;     // which of the buckets that had its name in time
  uint64_t sequence = 0;   // of a key, a later change has a greater one
  int64_t time_us = 0;
};

class Announcement {
 public:
  virtual ~Announcement() = default;
  // Inside the change: may run more than once, and goes by nothing but its argument and the room that there is.
  // slow_down: a queue is full, and so the change is refused.
  virtual Result<std::vector<EventRow>> events(const Happened& happened) const = 0;
  // When the change with these is made. On any thread; must not wait.
  virtual void committed(uint64_t bucket, const std::vector<EventRow>& events) const = 0;
};

}  // namespace verbena::store
