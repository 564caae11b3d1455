// Man pages, in the form of man-pages(7) and groff_man(7).
#include <algorithm>

#include "cli/command_tree.h"

namespace verbena::cli {
namespace {

// Escapes text for roff, so that none of it is an instruction.
std::string roff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string hyphenated(std::string path) {
  std::ranges::replace(path, ' ', '-');
  return path;
}

void add_options(std::string& page, const char* title, const std::vector<OptionText>& options) {
  if (options.empty()) return;
  page += std::string(".SH ") + title + "\n";
  for (const auto& option : options) {
    page += ".TP\n.B " + roff(option.names) + "\n";
    // The name in bold, the value in italics.
    if (!option.value.empty()) page.insert(page.size() - 1, " \\fI" + roff(option.value) + "\\fR");
    page += (option.what.empty() ? "\\&" : roff(option.what)) + (option.required ? " (required)" : "") + "\n";
  }
}

}  // namespace

std::string manual_name(const CommandText& command) { return hyphenated(command.path) + ".1"; }

std::string manual_page(const CommandText& command) {
  const std::string name = hyphenated(command.path);
  std::string page = ".TH \"" + roff(name) + "\" 1 \"\" \"Verbena " VERBENA_VERSION "\" \"Verbena\"\n";
  page += ".SH NAME\n" + roff(name) + " \\- " + roff(command.what) + "\n.SH SYNOPSIS\n.B " + roff(command.path) + "\n";
  if (!command.options.empty()) page += "[\\fIOPTIONS\\fR]\n";
  for (const auto& positional : command.positionals) {
    page += (positional.required ? "\\fI" : "[\\fI") + roff(positional.names) +
            (positional.required ? "\\fR" : "\\fR]") + "\n";
  }
  if (!command.commands.empty()) page += "\\fICOMMAND\\fR\n";
  if (!command.commands.empty()) page += ".SH COMMANDS\n";
  for (const auto& sub : command.commands) {
    page += ".TP\n.BR " + roff(hyphenated(sub.path)) + " (1)\n" + roff(sub.what) + "\n";
  }
  add_options(page, "ARGUMENTS", command.positionals);
  add_options(page, "OPTIONS", command.options);
  if (!command.footer.empty()) page += ".SH NOTES\n.nf\n" + roff(command.footer) + "\n.fi\n";
  return page;
}

}  // namespace verbena::cli
