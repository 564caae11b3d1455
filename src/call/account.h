// What a request leaves behind when it has been answered: counters of door, transport and bucket, the lines of the
// access log and of watchers, its trace, the record of its bucket's log. For every door, and for each item of a
// batch as for a request of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "call/call.h"
#include "call/observed.h"
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

// What logs say besides.
struct Details {
  std::string_view action = {};  // as docs/s3.md names it; empty: no log is told
  std::string_view path = {};    // where nothing better is known
  std::string_view key = {}, version = {};
  std::string_view source = {};  // of a copy or a rename
  std::string_view error_code = {};
  uint64_t bytes_in = 0, bytes_out = 0;  // beside objects' bytes, those of documents
  int64_t duration_us = 0;
  std::optional<uint64_t> object_size = {};
  BucketRecord* record = nullptr;  // of an item: in the log of its bucket
};

// Adds to verbena_door_bytes_total, verbena_transport_bytes_total and verbena_bucket_*. Of a bucket those requests
// count that were not refused, a 304 among them: a name that is made up gets no series.
void count(const Answered& answered);

// Ends a request. `details` is called where a log is told of it.
template <class MakeDetails>
void account(Call& call, const Answered& answered, MakeDetails details);

// Ends an item of a batch. Items that the caller has no right to are summed up: see account_refused().
template <class MakeDetails>
void account_item(Call& call, const Answered& answered, MakeDetails details);

// One line for all items of a batch that its caller has no right to, when the batch ends.
void account_refused(Call& call, int64_t duration_us);

// The lines and records alone.
void tell(Call& call, const Answered& answered, const Details& details);
void tell_item(Call& call, const Answered& answered, const Details& details);

template <class MakeDetails>
void account(Call& call, const Answered& answered, MakeDetails details) {
  count(answered);
  if (call.is_told()) tell(call, answered, details());
}

template <class MakeDetails>
void account_item(Call& call, const Answered& answered, MakeDetails details) {
  count(answered);
  if (call.is_told()) tell_item(call, answered, details());
}

}  // namespace verbena::call
