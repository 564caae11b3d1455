#include "cli/ready_line.h"

#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace verbena::cli {
namespace {

using Line = nlohmann::ordered_json;

// The port in "http://127.0.0.1:9000", "[::1]:9000"; null if the door is closed.
Line port_of(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos) return nullptr;
  unsigned port = 0;
  std::from_chars(endpoint.data() + colon + 1, endpoint.data() + endpoint.size(), port);
  return port;
}

Line or_null(const std::string& text) { return text.empty() ? Line(nullptr) : Line(text); }

}  // namespace

std::string ready_line(const server::Endpoints& endpoints, const server::RootKeys& keys, const std::string& region) {
  Line line = {
      {"s3", endpoints.http},
      {"native", or_null(endpoints.native)},
      {"admin", or_null(endpoints.admin)},
      {"ports",
       {{"s3", port_of(endpoints.http)}, {"native", port_of(endpoints.native)}, {"admin", port_of(endpoints.admin)}}},
      {"region", region},
      {"access_key", keys.credentials.access_key},
  };
  if (keys.from == server::RootKeys::From::generated) line["secret_key"] = keys.credentials.secret_key;
  line["pid"] = ::getpid();
  // Invalid UTF-8 (a key from the environment) must not end the server here.
  return line.dump(-1, ' ', true, Line::error_handler_t::replace) + "\n";
}

}  // namespace verbena::cli
