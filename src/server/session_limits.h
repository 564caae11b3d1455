// How many native sessions a server holds at once, where nobody has said it.
#pragma once

#include <cstdint>

#include "base/config.h"

namespace verbena::server {

// What sessions may take of: a session has a link to each core.
struct SessionRoom {
  uint64_t memory = 0;  // bytes, of the machine
  uint64_t files = 0;   // that the process may have open
  unsigned cores = 1;
};

uint64_t machine_memory();

// Gives the limits of sessions that are `auto` their values.
void settle_session_limits(Config::Rdma& rdma, const SessionRoom& room);

}  // namespace verbena::server
