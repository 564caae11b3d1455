// A request as an HTTP door passes it to the router, and its response.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "call/call.h"
#include "s3/reply_headers.h"
#include "s3/types.h"

namespace verbena::s3 {

// One S3 request over HTTP, syntax checked, authenticated, not interpreted yet. Its views belong to the door, which
// keeps them until the end.
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
  bool no_body = false;  // HEAD, 204, 304: headers only; `content_length` is then that of a GET
  std::optional<uint64_t> content_length;
  std::string error_code;               // S3's code, empty on success
  std::shared_ptr<const void> charged;  // the peer's charge for the body, held until it is sent
};

}  // namespace verbena::s3
