// `verbena manual` and `verbena completion`: files that packages install beside the program.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/command_tree.h"
#include "cli/commands.h"
#include "cli/exit_code.h"

namespace verbena::cli {
namespace {

bool write_pages(const CommandText& command, const std::filesystem::path& folder) {
  std::ofstream file(folder / manual_name(command), std::ios::binary);
  file << manual_page(command);
  bool done = file.flush().good();
  for (const auto& sub : command.commands) done = done && write_pages(sub, folder);
  return done;
}

int write_manual(const CommandText& program, const std::string& folder) {
  if (folder.empty()) {
    std::fputs(manual_page(program).c_str(), stdout);
    return exit_ok;
  }
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (write_pages(program, folder)) return exit_ok;
  std::fprintf(stderr, "verbena: cannot write in %s\n", folder.c_str());
  return exit_failure;
}

}  // namespace

void add_manual_commands(CLI::App& app, int& exit_code) {
  auto* manual = app.add_subcommand("manual", "Print the man page, or write those of all commands");
  auto folder = std::make_shared<std::string>();
  manual->add_option("--write", *folder, "write verbena.1, verbena-server.1 and so on there")->type_name("FOLDER");
  manual->callback([&app, folder, &exit_code] { exit_code = write_manual(command_tree(app), *folder); });

  auto* complete = app.add_subcommand("completion", "Print the script with which a shell completes verbena's commands");
  auto shell = std::make_shared<std::string>();
  complete->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  complete->footer(
      "bash: verbena completion bash > ~/.local/share/bash-completion/completions/verbena\n"
      "zsh:  verbena completion zsh > _verbena, in a folder of $fpath\n"
      "fish: verbena completion fish > ~/.config/fish/completions/verbena.fish");
  complete->callback([&app, shell] { std::fputs(completion(command_tree(app), *shell).c_str(), stdout); });
}

}  // namespace verbena::cli
