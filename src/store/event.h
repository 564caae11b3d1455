// Events of a change, for its subscribers: rows that are written with the change itself, so that neither exists without
// the other. The caller that requests the change chooses the subscribers and the contents.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/store.h"

namespace verbena::store {

// A change of a key that is being made.
struct Happened {
  const ObjectInfo& info;  // the new or changed object; of a removal the removed version, or the delete marker
  uint64_t bucket = 0;     // the bucket's id, which no other bucket of its name has
  uint64_t sequence = 0;   // of a key: a later change has a greater one
  int64_t time_us = 0;
};

// An event's room in its queue, held until the change is committed or given up: changes that are decided together,
// before any of them is committed, have room for all their events or are refused.
class EventRoom {
 public:
  virtual ~EventRoom() = default;
};

class Announcement {
 public:
  virtual ~Announcement() = default;
  // The events of a change. Runs inside the change, perhaps more than once, and depends only on its argument and on
  // free space in the queues. slow_down: a queue is full, so the change is refused.
  virtual Result<std::vector<EventRow>> events(const Happened& happened) const = 0;
  // Called when the change with these events is committed. On any thread; must not wait.
  virtual void committed(uint64_t bucket, const std::vector<EventRow>& events) const = 0;
};

}  // namespace verbena::store
