// What a pollable can say besides (core.h) whose poll() does not bring all that there is: it saves system calls while
// the loop watches a descriptor for it, or has a limit for a turn.
#pragma once

namespace verbena {

// A public base beside Pollable: the loop looks for it there.
class PartialPollable {
 public:
  // The next poll() asks for all that there may be: the loop's own look at descriptors is older than what may have
  // come.
  virtual void ask() = 0;
  // Whether the last poll() left something: what the next one brings may be older than it. Said of a poll() after
  // ask().
  virtual bool left_some() const = 0;

 protected:
  ~PartialPollable() = default;
};

}  // namespace verbena
