// POSTs to one server, one after the other over a connection that is kept. Internal to observe/: for what the server
// itself has to tell others. Blocks; used by one thread at a time, but for cut().
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
  // `url`: "http://HOST[:PORT][/PATH]" or https, whose certificate the system's authorities must know. `path`: where
  // the URL has none. invalid_argument: it is no such URL, or has a user in it.
  static Result<std::unique_ptr<PostClient>> create(std::string_view url, std::string_view path);
  ~PostClient();

  using Headers = std::vector<std::pair<std::string, std::string>>;
  // The answer's status; its body is read, and not kept. Errors: timed_out, connection_failed, closed, malformed.
  Result<int> post(std::string_view content_type, const std::string& body, const Headers& headers,
                   std::chrono::milliseconds timeout);
  // Ends the call that is under way, if there is one, with timed_out. Any thread.
  void cut();

 private:
  struct State;
  explicit PostClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace verbena::observe
