// The parameters of a NIXL backend, as its user gives them.
#pragma once

#include <expected>
#include <string>

#include "abi.h"
#include "verbena/client.h"

namespace verbena::nixl {

struct Settings {
  std::string bucket, prefix;  // the prefix stands before every key
  ClientOptions client;
};

// Those without a value, with their meaning: docs/nixl.md. An error is one line that names the parameter.
std::expected<Settings, std::string> parse_settings(const Parameters& given);
// Each parameter and its default.
Parameters default_parameters();

}  // namespace verbena::nixl
