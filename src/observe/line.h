// The report of a finished request.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/request_trace.h"

namespace verbena::observe {

// Views are borrowed for the call. Never a signature, a token or a query string: a presigned query is
// a credential.
struct Line {
  int64_t time_us = 0;  // when the request came, microseconds since the epoch
  std::string_view peer = {};
  std::string_view principal = {};   // ARN; empty: not known
  std::string_view access_key = {};  // empty: anonymous or not authenticated
  std::string_view action = {};      // as docs/s3.md names it: "GET object?tagging"; else the method
  std::string_view path = {};        // as sent, percent-encoded; for a request without action, bucket and key
  std::string_view bucket = {}, key = {}, version = {};
  std::string_view source = {};  // of a copy or a rename: "bucket/key", perhaps with "?versionId="
  std::string_view door = {};
  std::string_view transport = {};  // what carried the bytes: http, tcp, shared_memory, rdma
  int status = 0;
  std::string_view error_code = {};      // empty: none
  uint64_t bytes_in = 0, bytes_out = 0;  // of objects and documents, by any transport
  uint64_t rdma_bytes = 0;               // the objects' bytes among them that an RDMA device moved
  int64_t duration_us = 0;
  // Parts of the duration: waits for memory and for the store, and the transfer of the payload. For watchers; logs do
  // not have them.
  int64_t wait_us = 0, disk_us = 0, wire_us = 0;
  std::string_view request_id = {};
  // For a line that covers several requests or items of a batch: how many, and of how many. 0: the line covers one.
  uint32_t items = 0, of_items = 0;
  bool cut = false;  // path or key were shortened
};

// Names, as in logs and for watchers, and values of a line's fields about caller, request and object.
template <class Text>
void each_text(const Line& line, Text text) {
  text("peer", line.peer);
  text("principal", line.principal);
  text("access_key", line.access_key);
  text("action", line.action);
  text("path", line.path);
  text("bucket", line.bucket);
  text("key", line.key);
  text("version", line.version);
  text("source", line.source);
}

// Whether the request was refused for its rights or its missing authentication, so that it cost its sender nothing.
inline bool is_refused(const Line& line) {
  return line.status == 401 || line.status == 403 || (line.principal.empty() && line.status >= 400);
}

// Adds the times of the request's stages.
inline void add_stage_times(Line& line, const RequestTrace& trace) {
  line.wait_us = static_cast<int64_t>(trace.ns(Stage::memory) / 1000);
  line.disk_us = static_cast<int64_t>(trace.ns(Stage::disk) / 1000);
  line.wire_us = static_cast<int64_t>((trace.ns(Stage::wire) + trace.ns(Stage::reply)) / 1000);
}

}  // namespace verbena::observe
