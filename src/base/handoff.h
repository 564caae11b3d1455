// Work handed from one thread to another: the time until the other takes it up. Measured as
// verbena_queue_wait_seconds{queue="core"}.
#pragma once

#include <cstdint>

namespace verbena {

class Handoff {
 public:
  Handoff();
  void taken() const;

 private:
  uint64_t given_;
};

}  // namespace verbena
