// Data for observers of a request while it is served: its arrival, its times by stage, its trace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/request_trace.h"
#include "call/access_log.h"
#include "observe/request_watch.h"
#include "observe/tracer.h"
#include "rdma/transport.h"

namespace verbena::call {

// The observers of a door. null: not configured.
struct Observers {
  AccessLog* access_log = nullptr;
  observe::RequestWatch* watch = nullptr;
  observe::Tracer* tracer = nullptr;
};

// Items of a batch that its caller may not access. They share one line, which names the first of them.
struct RefusedItems {
  uint32_t items = 0, refused = 0;  // of the batch so far
  std::string_view action{};
  rdma::Transport transport = rdma::Transport::http;
  std::string bucket{}, key{}, version{}, error_code{};
};

struct Observed {
  const Observers* by = nullptr;
  int64_t time_us = 0;  // when the request came, since the epoch
  RequestTrace trace{};
  observe::Traced traced{};
  RefusedItems refused{};
};

}  // namespace verbena::call
