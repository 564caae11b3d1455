// `verbena config`: prints the configuration as a file to edit, and checks one.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/config.h"
#include "base/config_template.h"
#include "cli/exit_code.h"
#include "cli/server_command.h"

namespace verbena::cli {
namespace {

int check_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    std::fprintf(stderr, "verbena: cannot read %s\n", path.c_str());
    return exit_not_found;
  }
  Config config;
  auto done = apply_yaml(config, text.str(), path);
  if (done) done = check(config);
  if (done) return exit_ok;
  std::fprintf(stderr, "verbena: %s\n", done.error().c_str());
  return exit_usage;
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
