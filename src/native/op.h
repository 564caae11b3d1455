// One request being served: its arguments (copied out of the message, which does not outlive the call that brought it)
// and its reply. Recycled, strings and all, so that a warm door allocates nothing for them.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/request_trace.h"
#include "call/observed.h"
#include "memory/charge.h"
#include "native/session_stream.h"
#include "native/wire/bodies.h"
#include "native/wire/device.h"
#include "native/wire/message.h"
#include "rdma/token_windows.h"
#include "s3/reply_headers.h"
#include "s3/service.h"

namespace verbena::native {

class Endpoint;
class ReadBatch;
class WriteBatch;
struct MatchRequest;

struct Op {
  Op();
  ~Op();
  std::shared_ptr<Endpoint> endpoint;
  std::shared_ptr<SessionStream> stream;
  wire::Header header;
  s3::Call caller;
  uint64_t began = 0;  // ticks(), when its message came
  // Of a change: its client waits no longer, as far as is known here (Endpoint::waits_until).
  Deadline until = Deadline::max();
  store::Wanted wanted() const { return {until, stream->withdrawn}; }
  Deadline reply_by;  // set when the reply has to wait for the peer's queue

  // The whole reply message: body_size bytes of body at wire::header_size.
  std::vector<std::byte> reply;
  size_t body_size = 0;
  Errc outcome = Errc::ok;

  // GET and HEAD
  s3::GetRequest get;
  wire::Descriptor window;
  uint32_t inline_max = 0;
  // Set by serve_hot_get() if the bytes could not be sent at once: the opened object, and the lent window if it is
  // used.
  std::optional<s3::OpenObject> opened;
  std::optional<rdma::WindowSink> sink;
  s3::ReplyHeaders said;  // with flag_said_headers; of PUT, too
  std::vector<wire::Range> ranges;
  // PUT
  s3::PutRequest put;
  std::vector<std::byte> inline_bytes;
  uint64_t put_size = 0;
  // RENAME
  s3::RenameObjectRequest rename;
  // DELETE and LIST; also copies of PUT's and RENAME's, whose requests are moved away
  std::string bucket, key;
  store::CommitConditions conditions;
  store::ListRequest list;
  memory::Charge page;  // LIST and LIST_VALUES: the client's charge for the listing, while it is served
  // LIST_VALUES, beside the window
  uint64_t value_size_max = 0;
  uint8_t details = 0;

  // WATCH_NEXT and WATCH_END. WATCH's prefix is in `list`
  struct Watching {
    uint64_t watch = 0, seen = 0;
    uint32_t wait_ms = 0;
  } watching;

  // GET_MANY and HEAD_MANY, PUT_MANY and DELETE_MANY
  std::unique_ptr<ReadBatch> read;
  std::unique_ptr<WriteBatch> write;
  std::unique_ptr<MatchRequest> match;  // MATCH
  uint64_t lease = 0;                   // LEASE_END
  wire::Device device;                  // DEVICE; of DEVICE_END its size is the number

  // Objects' bytes that moved (of a batch, of all its items), and whether the answer is a range.
  struct Moved {
    uint64_t in = 0, out = 0;
  } moved;
  bool partial = false;

  // For observers of requests, if any: `caller.observed` points here.
  struct Noted : call::Observed {
    std::optional<observe::TraceContext> of_caller;  // from its message
    std::string source;                              // of a RENAME
  } noted;
  // About the object in the answer; only set if is_told().
  std::string object_version;
  std::optional<uint64_t> object_size;

  // Whether a log or an observer needs it and each of its items.
  bool is_told() const { return caller.is_told(); }
  // The object of the answer.
  void answers(const store::ObjectInfo& info, bool is_range);
  unsigned version() const { return stream->session->version; }  // of the protocol
  bool has(wire::Flags flag) const { return (header.flags & flag) != 0; }
  // Space for a reply's body, without the MAC.
  MutableBytes body_space() {
    return MutableBytes(reply).subspan(wire::header_size, stream->message_size_max - wire::frame_size);
  }
  void fail(Errc code);
  // Where no request is read into it: what is left there is of the request before, perhaps of another client's.
  void forget_target();
  // The deadline of each one-sided operation of this request.
  std::chrono::milliseconds operation_deadline() const;
};

struct RecycleOp {
  void operator()(Op* op) const;
};
using OpPtr = std::unique_ptr<Op, RecycleOp>;

s3::ByteRange byte_range(wire::Range range);

// The id of the caller's account, to which what it holds is charged; empty: it has none.
std::string account_of(const Op& op);

// Parsers from a message's body to an Op's arguments. False: malformed.
bool load_get(Op& op, Bytes body);
bool load_put(Op& op, Bytes body);
bool load_append(Op& op, Bytes body);
bool load_rename(Op& op, Bytes body);
bool load_delete(Op& op, Bytes body);
bool load_list(Op& op, Bytes body);
bool load_list_values(Op& op, Bytes body);
bool load_watch(Op& op, Bytes body);
bool load_watch_next(Op& op, Bytes body);
bool load_watch_end(Op& op, Bytes body);
bool load_match(Op& op, Bytes body);
bool load_lease_end(Op& op, Bytes body);
bool load_device(Op& op, Bytes body);
bool load_device_end(Op& op, Bytes body);

// Serves a GET of an object in memory whose bytes can be sent at once. True: the reply is ready, success or error.
// False: nothing was sent; `opened` has the opened object, if any.
bool serve_hot_get(Op& op);

// The verbs. Each replies through the op's endpoint.
Task<void> serve_get(OpPtr op);
Task<void> serve_head(OpPtr op);
Task<void> serve_put(OpPtr op);  // APPEND, too
Task<void> serve_rename(OpPtr op);
Task<void> serve_delete(OpPtr op);
Task<void> serve_list(OpPtr op);
Task<void> serve_list_values(OpPtr op);
Task<void> serve_watch(OpPtr op);
Task<void> serve_watch_next(OpPtr op);
Task<void> serve_watch_end(OpPtr op);
Task<void> serve_match(OpPtr op);
Task<void> serve_lease_end(OpPtr op);
Task<void> serve_device(OpPtr op);
Task<void> serve_device_end(OpPtr op);

}  // namespace verbena::native
