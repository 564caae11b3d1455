#include "cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace verbena::cli {
namespace {

OptionText option_text(const CLI::Option& option) {
  OptionText out;
  out.what = option.get_description();
  out.required = option.get_required();
  for (const auto& name : option.get_snames()) out.flags.push_back("-" + name);
  for (const auto& name : option.get_lnames()) out.flags.push_back("--" + name);
  for (const auto& flag : out.flags) out.names += (out.names.empty() ? "" : ", ") + flag;
  if (out.flags.empty()) out.names = option.get_name(true);
  if (!out.flags.empty() && option.get_items_expected_max() > 0) {
    const std::string type = option.get_type_name();
    // A validator's values follow the type's name ("TEXT:{auto,native}"): the description lists them in words.
    const size_t validator = std::min(type.find(":{"), type.find(":UINT"));
    out.value = type.empty() ? "VALUE" : type.substr(0, validator);
  }
  return out;
}

CommandText read_tree(const CLI::App& app, const std::string& above) {
  CommandText out;
  out.path = (above.empty() ? "" : above + " ") + app.get_name();
  out.what = app.get_description();
  out.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    (option->nonpositional() ? out.options : out.positionals).push_back(option_text(*option));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    out.commands.push_back(read_tree(*command, out.path));
  }
  return out;
}

}  // namespace

CommandText command_tree(const CLI::App& app) { return read_tree(app, ""); }

}  // namespace verbena::cli
