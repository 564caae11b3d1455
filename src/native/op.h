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
#include "native/lane.h"
#include "native/wire/bodies.h"
#include "native/wire/message.h"
#include "rdma/token_windows.h"
#include "s3/reply_headers.h"
#include "s3/service.h"

namespace verbena::native {

class Endpoint;
class ReadBatch;
class WriteBatch;

struct Op {
  Op();
  ~Op();
  std::shared_ptr<Endpoint> endpoint;
  std::shared_ptr<Lane> lane;
  wire::Header header;
  s3::Call caller;
  uint64_t began = 0;  // ticks(), when its message came
  Deadline reply_by;   // set when the reply has to wait for the peer's queue

  // The whole reply message: body_size bytes of body at wire::header_size.
  std::vector<std::byte> reply;
  size_t body_size = 0;
  Errc outcome = Errc::ok;

  // GET and HEAD
  s3::GetRequest get;
  wire::Descriptor window;
  uint32_t inline_max = 0;
  // By serve_hot_get(), when the bytes could not go at once: what was opened, and the lent window if they go there.
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
  // DELETE and LIST; those of PUT and RENAME, too, whose requests are given away
  std::string bucket, key;
  store::CommitConditions conditions;
  store::ListRequest list;
  memory::Charge
      page;  // LIST and LIST_VALUES: what their client was charged for what was listed, while they are served
  // LIST_VALUES, beside the window
  uint64_t value_size_max = 0;
  uint8_t details = 0;

  // WATCH_NEXT and WATCH_END. Of WATCH the prefix is that of `list`
  struct Watching {
    uint64_t watch = 0, seen = 0;
    uint32_t wait_ms = 0;
  } watching;

  // GET_MANY and HEAD_MANY, PUT_MANY and DELETE_MANY
  std::unique_ptr<ReadBatch> read;
  std::unique_ptr<WriteBatch> write;

  // Bytes of objects that moved, those of a batch's items together; and whether the answer is a range.
  struct Moved {
    uint64_t in = 0, out = 0;
  } moved;
  bool partial = false;

  // For observers of requests, where there are any: `caller.observed` is this.
  struct Noted : call::Observed {
    std::optional<observe::TraceContext> of_caller;  // as its message has it
    std::string source;                              // of a RENAME
  } noted;
  // Of the object that was answered, where is_told().
  std::string object_version;
  std::optional<uint64_t> object_size;

  // Whether a log or an observer is told of it, and of each of its items.
  bool is_told() const { return caller.is_told(); }
  // The object that the answer is about.
  void answers(const store::ObjectInfo& info, bool is_range);
  unsigned version() const { return lane->session->version; }  // of the protocol
  bool has(wire::Flags flag) const { return (header.flags & flag) != 0; }
  // Space for a reply's body, MAC left out.
  MutableBytes body_space() {
    return MutableBytes(reply).subspan(wire::header_size, lane->message_size_max - wire::frame_size);
  }
  void fail(Errc code);
  // Of a message that cannot be read: what is left there is of the request before it, perhaps of another client's.
  void forget_target();
  // One-sided operations of this request end by then, each.
  std::chrono::milliseconds operation_deadline() const;
};

struct RecycleOp {
  void operator()(Op* op) const;
};
using OpPtr = std::unique_ptr<Op, RecycleOp>;

s3::ByteRange byte_range(wire::Range range);

// From a message's body to an Op's arguments. False: malformed.
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

// A GET of an object in memory whose bytes can go at once. True: the reply is ready, whatever it says. False: nothing
// was sent; what was opened is in `opened`.
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

}  // namespace verbena::native
