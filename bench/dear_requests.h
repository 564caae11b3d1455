// The requests measured by dear_requests.cc, and the server that they are sent to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "auth/auth.h"

namespace verbena::bench {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Cost {
  int64_t longest_ns = 0, all_ns = 0;  // of the core's thread: one handler, and all of them
  int status = 0;
  std::string answer{};
};

struct Ask {
  std::string method = "GET", path = "/", query{}, body{}, payload{};  // payload: instead of the body's hash
  Pairs headers{};
};

class House {
 public:
  virtual ~House() = default;
  virtual Cost ask(const std::string& request, bool bodyless = false) = 0;
  virtual Cost batch(std::string_view type, size_t key_bytes) = 0;  // for the bucket `policied`
  virtual Cost native_list(std::string_view bucket) = 0;
  virtual std::string sign(const Ask& ask) = 0;
  virtual uint16_t port() const = 0;
  virtual const auth::Credentials& keys() const = 0;
  Cost send(const Ask& ask_) { return ask(sign(ask_), ask_.method == "HEAD"); }
};

struct Dear {
  std::string name, what;
  int status = 200;                     // with another status the row measures something else
  std::function<void(House&)> prepare;  // prepares its data; earlier rows may have left some
  std::function<Cost(House&)> serve;
};
std::vector<Dear> dearest();

}  // namespace verbena::bench
