// The head of an answer as bytes. Internal to http/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "s3/reply_headers.h"

namespace verbena::http {

struct ResponseHead {
  int status = 200;
  const s3::ReplyHeaders* headers = nullptr;  // may be null
  std::optional<uint64_t> content_length;     // nullopt: no such header (204, 304)
  bool close = false;                         // "Connection: close"
  bool keep_alive_1_0 = false;                // "Connection: keep-alive", which HTTP/1.0 clients wait for
};

// Control characters in header values become blanks: a stored or requested value must not be able to end a line.
void append_response_head(std::string& out, const ResponseHead& head);

std::string_view reason_phrase(int status);

}  // namespace verbena::http
