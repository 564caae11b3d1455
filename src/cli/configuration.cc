#include "cli/configuration.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

namespace verbena::cli {

std::expected<Config, std::string> read_file_and_environment(const std::string& path) {
  Config config;
  if (!path.empty()) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) return std::unexpected("cannot read " + path);
    if (auto done = apply_yaml(config, text.str(), path); !done) return std::unexpected(done.error());
  }
  static constexpr std::string_view other_variables[] = {
      "VERBENA_ROOT_ACCESS_KEY",      "VERBENA_ROOT_SECRET_KEY", "VERBENA_ROOT_ACCESS_KEY_FILE",
      "VERBENA_ROOT_SECRET_KEY_FILE", "VERBENA_CACHE",           "VERBENA_NATIVE"};
  if (auto done = apply_environment(config, environ, other_variables); !done) return std::unexpected(done.error());
  return config;
}

ConfigResult apply_assignments(Config& config, std::span<const std::string> assignments) {
  for (const auto& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos) return std::unexpected("--set wants KEY=VALUE");
    auto done = apply_value(config, assignment.substr(0, equals), assignment.substr(equals + 1));
    if (!done) return std::unexpected("--set " + done.error());
  }
  return {};
}

}  // namespace verbena::cli
