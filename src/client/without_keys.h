// Endpoints in errors, which end up in logs.
#pragma once

#include <string>
#include <string_view>

namespace verbena::client {

// What is behind the keys of "http://KEY:SECRET@host", which no endpoint has; 256 bytes at most.
inline std::string without_keys(std::string_view endpoint) {
  return std::string(endpoint.substr(endpoint.rfind('@') + 1).substr(0, 256));
}

}  // namespace verbena::client
