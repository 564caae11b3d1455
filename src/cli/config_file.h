// Reads a configuration file as the server does.
#pragma once

#include <expected>
#include <string>

#include "base/config.h"

namespace verbena::cli {

struct ConfigFileError {
  std::string text;
  int exit_code = 0;  // exit_code.h
};
std::expected<Config, ConfigFileError> read_config_file(const std::string& path);

}  // namespace verbena::cli
