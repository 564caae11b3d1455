#include "cli/config_file.h"

#include <fstream>
#include <sstream>

#include "cli/exit_code.h"

namespace verbena::cli {

std::expected<Config, ConfigFileError> read_config_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return std::unexpected(ConfigFileError{"cannot read " + path, exit_not_found});
  }
  Config config;
  auto done = apply_yaml(config, text.str(), path);
  if (done) done = check(config);
  if (!done) return std::unexpected(ConfigFileError{done.error(), exit_usage});
  return config;
}

}  // namespace verbena::cli
