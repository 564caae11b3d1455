// `verbena config`: prints the configuration as a file to edit, and checks one.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/config_template.h"
#include "cli/config_file.h"
#include "cli/exit_code.h"
#include "cli/server_command.h"

namespace verbena::cli {
namespace {

int check_file(const std::string& path) {
  const auto config = read_config_file(path);
  if (config) return exit_ok;
  std::fprintf(stderr, "verbena: %s\n", config.error().text.c_str());
  return config.error().exit_code;
}

}  // namespace

void add_config_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("config", "Print a configuration file with every key as a comment");
  auto path = std::make_shared<std::string>();
  command->add_option("--check", *path, "check this file instead: exit code 2 and a line that says what is wrong")
      ->type_name("FILE");
  command->callback([path, &exit_code] {
    if (!path->empty()) {
      exit_code = check_file(*path);
      return;
    }
    std::fputs(config_template().c_str(), stdout);
  });
}

}  // namespace verbena::cli
