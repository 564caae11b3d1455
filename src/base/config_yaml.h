// YAML of configurations: what is refused before yaml-cpp sees it, and nested values as text. Private to this room.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <string_view>

#include "base/config.h"

namespace verbena {

// yaml-cpp recurses on nesting without a bound (a file of a million '[' overflows its stack), and aliases can expand
// exponentially. A configuration needs neither, so both are refused before the parser sees them.
ConfigResult check_yaml_shape(std::string_view text, std::string_view origin);

// A node whose shape was checked, as YAML on one line: [{networks: ["10.0.0.0/8"], encryption: "off"}]
std::string flow_text(const YAML::Node& node);

// A choice by its word. Empty on success, else the error.
std::string parse_rdma_encryption(RdmaEncryption& into, const std::string& text);

// The value of `listeners`, as YAML or JSON. Empty on success, else the error with its place: "[1].networks: ...".
std::string parse_listeners(std::vector<Config::Listener>& into, const std::string& text);

}  // namespace verbena
