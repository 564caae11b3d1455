// A request and a response between a door and S3. S3 knows no socket and no fabric: bytes come from a Source and go to
// a Sink.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "auth/auth.h"
#include "call/call.h"
#include "memory/stream.h"
#include "rdma/transport.h"
#include "s3/reply_headers.h"

namespace verbena::store {
class ObjectReader;
}

namespace verbena::s3 {

using call::Call;
using call::Door;

using Headers = std::vector<std::pair<std::string, std::string>>;
using HeaderSpan = std::span<const Headers::value_type>;

// An object found in memory, and the generation of access records before that look-up: if it changes, the bucket may be
// another one.
struct FoundObject {
  std::shared_ptr<store::ObjectReader> reader{};
  uint64_t generation = 0;
};

// One S3 request over HTTP, syntax checked, authenticated; nothing interpreted yet. Its views belong to the door and
// outlive it.
struct Request {
  Call& call;
  std::string_view method{};    // upper case
  std::string host{};           // Host header without port, lower case
  std::string_view raw_path{};  // percent-encoded, starts with '/'
  std::string_view raw_query{};
  HeaderSpan headers{};                      // names lower case; values trimmed
  std::optional<uint64_t> content_length{};  // of the decoded payload; nullopt when not declared
  FoundObject found{};                       // of a GET or HEAD that try_handle() could not complete

  // The value of the first header of that (lower-case) name.
  std::optional<std::string_view> header(std::string_view name) const;
};

struct Response {
  int status = 200;
  ReplyHeaders headers;  // without content-length, date, server, connection: the door adds those
  std::string body;      // XML or empty; ignored once a Sink was begun
  bool no_body = false;  // HEAD, 204, 304: headers only. `content_length` then says what a GET would have
  std::optional<uint64_t> content_length;
  std::string error_code;               // S3's code, empty on success
  std::shared_ptr<const void> charged;  // the peer's charge for the body, held until it is sent
};

}  // namespace verbena::s3
