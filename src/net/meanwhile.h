// What a caller does while a connection waits, on the thread that waits.
#pragma once

#include <chrono>

namespace verbena::net {

class Meanwhile {
 public:
  virtual ~Meanwhile() = default;

  // Until when run() need not be called again: the descriptor is readable (-1: there is none), or the time is over.
  struct Sleep {
    int fd = -1;
    std::chrono::nanoseconds at_most{};
  };
  // Does what can be done now, without waiting. Called before each sleep.
  virtual Sleep run() = 0;
};

}  // namespace verbena::net
