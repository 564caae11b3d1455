// The number of native sessions that a server holds at once, if not configured.
#pragma once

#include <cstdint>

#include "base/config.h"

namespace verbena::server {

// Resources for sessions: a session has a link to each core.
struct SessionRoom {
  uint64_t memory = 0;  // bytes, of the machine
  uint64_t files = 0;   // the process's limit of open files
  unsigned cores = 1;
};

uint64_t machine_memory();

// Sets the limits of sessions that are `auto`.
void settle_session_limits(Config::Rdma& rdma, const SessionRoom& room);

}  // namespace verbena::server
