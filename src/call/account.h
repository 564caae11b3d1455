// Accounting of an answered request: counters of door, transport and bucket, the lines of the access log and of
// watchers, its trace, the record in its bucket's log. Used by every door, and for each item of a batch as for a
// request of its own.
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

// An answered request. Views need to be valid during the call only.
struct Answered {
  Door door = Door::http;
  rdma::Transport transport = rdma::Transport::http;  // of the object's bytes
  Verb verb = Verb::other;
  std::string_view bucket = {};
  int status = 200;          // as HTTP has it
  uint64_t in = 0, out = 0;  // bytes of objects that moved
  uint64_t requests = 1;     // number of equal requests that moved these bytes together
};

// Further fields for logs.
struct Details {
  std::string_view action = {};  // as docs/s3.md names it; empty: not logged
  std::string_view path = {};    // for a request whose bucket and key are unknown
  std::string_view key = {}, version = {};
  std::string_view source = {};  // of a copy or a rename
  std::string_view error_code = {};
  uint64_t bytes_in = 0, bytes_out = 0;  // of documents, besides objects' bytes
  int64_t duration_us = 0;
  std::optional<uint64_t> object_size = {};
  BucketRecord* record = nullptr;  // an item's record in its bucket's log
};

// Adds to verbena_door_bytes_total, verbena_transport_bytes_total and verbena_bucket_*. Per bucket only requests that
// were not refused are counted (a 304 is not a refusal), so that invented names get no series.
void count(const Answered& answered);

// Ends a request. `details` is called only if something logs or observes it.
template <class MakeDetails>
void account(Call& call, const Answered& answered, MakeDetails details);

// Ends an item of a batch. Items that the caller may not access are summed up: see account_refused().
template <class MakeDetails>
void account_item(Call& call, const Answered& answered, MakeDetails details);

// Writes one line for all items of a batch that its caller may not access. Called when the batch ends.
void account_refused(Call& call, int64_t duration_us);

// Lines and records without the counters.
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
