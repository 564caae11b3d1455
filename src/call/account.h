// What a request leaves behind when it has been answered: counters of door, transport and bucket, the line of the
// access log. For every door, and for each item of a batch as for a request of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "auth/auth.h"
#include "base/request_trace.h"
#include "call/call.h"
#include "call/request_times.h"
#include "observe/line.h"
#include "rdma/transport.h"

namespace verbena::call {

// A request that was answered. Views are borrowed for the call.
struct Answered {
  Door door = Door::http;
  rdma::Transport transport = rdma::Transport::http;  // of the object's bytes
  Verb verb = Verb::other;
  std::string_view bucket = {};
  int status = 200;          // as HTTP has it
  uint64_t in = 0, out = 0;  // bytes of objects that moved
  uint64_t requests = 1;     // so many alike, which moved these bytes together
};

// Adds to verbena_door_bytes_total, verbena_transport_bytes_total and verbena_bucket_*. Of a bucket those requests
// count that were not refused, a 304 among them: a name that is made up gets no series.
void count(const Answered& answered);

// What logs say besides.
struct Details {
  const auth::Identity* who = nullptr;  // null: not known
  std::string_view peer = {};
  std::string_view action = {};  // as docs/s3.md names it
  std::string_view path = {};    // where there is no action
  std::string_view key = {}, version = {};
  std::string_view source = {};  // of a copy or a rename
  std::string_view error_code = {};
  uint64_t bytes_in = 0, bytes_out = 0;  // beside objects' bytes, those of documents
  int64_t time_us = 0;                   // when it came; 0 where no line is wanted
  int64_t duration_us = 0;
  std::string_view request_id = {};
  const RequestTrace* trace = nullptr;
};
observe::Line line_of(const Answered& answered, const Details& details);

}  // namespace verbena::call
