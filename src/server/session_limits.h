// How many native sessions a server holds at once, where nobody has said it.
#pragma once

#include <cstdint>

#include "base/config.h"

namespace verbena::server {

struct SessionLimits {
  uint64_t sessions_max = 0;
  uint64_t account_max = 0;  // 0: no limit
  uint64_t client_max = 0;   // 0: no limit
  uint64_t reserved = 0;     // of sessions_max, for the root key
};

// What sessions take of the machine: a session has a link to each core.
struct SessionRoom {
  uint64_t memory = 0;  // bytes, of the machine
  uint64_t files = 0;   // that the process may have open
  unsigned cores = 1;
};

SessionRoom session_room(unsigned cores);
SessionLimits session_limits(const Config::Rdma& rdma, const SessionRoom& room);

}  // namespace verbena::server
