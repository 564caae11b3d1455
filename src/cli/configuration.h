// The server's configuration for its commands: a file, then the environment, then the command line.
#pragma once

#include <expected>
#include <span>
#include <string>

#include "base/config.h"

namespace verbena::cli {

// `path` may be empty: no file. The error names the file, key or variable at fault.
std::expected<Config, std::string> read_file_and_environment(const std::string& path);

// The assignments of --set: KEY=VALUE each.
ConfigResult apply_assignments(Config& config, std::span<const std::string> assignments);

}  // namespace verbena::cli
