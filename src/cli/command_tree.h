// The program's commands as data, read from the parser itself: man pages and completions have the texts of `--help`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace verbena::cli {

struct OptionText {
  std::string names;               // "-r, --recursive"; the name of a positional
  std::vector<std::string> flags;  // "-r", "--recursive"; empty for a positional
  std::string value;               // "ADDR:PORT"; empty for a flag
  std::string what;
  bool required = false;
};

struct CommandText {
  std::string path;  // "verbena user key"
  std::string what;
  std::string footer;
  std::vector<OptionText> positionals, options;
  std::vector<CommandText> commands;
};

CommandText command_tree(const CLI::App& app);

// roff for man(1): one page, verbena-user-key.1 for "verbena user key".
std::string manual_page(const CommandText& command);
std::string manual_name(const CommandText& command);

// "bash", "zsh" or "fish"; empty for another shell.
std::string completion(const CommandText& program, const std::string& shell);

}  // namespace verbena::cli
