// POSTs to one server, one after the other over a kept-alive connection. Internal to observe/: for reports by the
// server itself. Blocks; used by one thread at a time, except cut().
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace verbena::observe {

class PostClient {
 public:
  // `url`: "http://HOST[:PORT][/PATH]" or https, whose certificate the system's authorities must know. `path`: used if
  // the URL has none. invalid_argument: not such a URL, or one with a user.
  static Result<std::unique_ptr<PostClient>> create(std::string_view url, std::string_view path);
  ~PostClient();

  using Headers = std::vector<std::pair<std::string, std::string>>;
  // Returns the answer's status; the body is read and discarded. Errors: timed_out, connection_failed, closed,
  // malformed.
  Result<int> post(std::string_view content_type, const std::string& body, const Headers& headers,
                   std::chrono::milliseconds timeout);
  // Ends the call in progress, if any, with timed_out. Any thread.
  void cut();

 private:
  struct State;
  explicit PostClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace verbena::observe
