// A request's head: from bytes to fields. Internal to http/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "s3/types.h"

namespace verbena::http {

// Reused from request to request on a connection, so that its strings keep their memory.
struct RequestHead {
  std::string method, path, query;
  s3::Headers headers;  // names lower case, values trimmed
  std::optional<uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;
  bool expect_continue = false;
  bool http_1_0 = false;
  const char* refusal = nullptr;  // why parse_head() refused it, where there is more to say than its status
};

inline constexpr size_t target_size_max = 16 * 1024;
inline constexpr size_t header_count_max = 256;

// Looks for the end of a head in bytes that arrive piece by piece, and refuses line ends that recipients disagree on
// (a bare LF, a continued line): those are what request smuggling is made of.
class HeadScanner {
 public:
  enum class Status { more, complete, bad };
  // `bytes` begins at the request line and only grows between calls.
  Status scan(std::string_view bytes);
  size_t size() const { return at_; }  // of the head, when complete
  void reset() { at_ = 0; }

 private:
  size_t at_ = 0;  // all before it was looked at
};

// Parses a complete head (up to and including the empty line). 0, or the HTTP status to refuse it with: 400, 414,
// 431, 501, 505.
int parse_head(std::string_view bytes, RequestHead& head);

}  // namespace verbena::http
