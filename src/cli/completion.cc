// Completions. Each shell follows the words before the cursor down the tree of commands, then offers that command's
// subcommands, its options after a '-', and otherwise files.
#include "cli/command_tree.h"

namespace verbena::cli {
namespace {

template <class Visit>
void each_command(const CommandText& command, const Visit& visit) {
  visit(command);
  for (const auto& sub : command.commands) each_command(sub, visit);
}

std::string last_word(const std::string& path) { return path.substr(path.rfind(' ') + 1); }

std::string single_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// fish knows \' and \\ between single quotes.
std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += (c == '\'' || c == '\\') ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

// The pattern of a shell's `case`: every path but the program's own.
std::string paths_pattern(const CommandText& program) {
  std::string out;
  each_command(program, [&](const CommandText& command) {
    if (command.path != program.path) out += (out.empty() ? "'" : "|'") + command.path + "'";
  });
  return out;
}

std::string bash(const CommandText& program) {
  std::string out = "# bash completion for " + program.path + ", made by `" + program.path +
                    " completion bash`\n"
                    "_verbena() {\n"
                    "  local at=" +
                    program.path +
                    " word commands= options=\n"
                    "  COMPREPLY=()\n"
                    "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
                    "    case \"$at $word\" in " +
                    paths_pattern(program) +
                    ") at=\"$at $word\" ;; esac\n"
                    "  done\n"
                    "  case $at in\n";
  each_command(program, [&](const CommandText& command) {
    out += "    '" + command.path + "') commands='";
    for (const auto& sub : command.commands) out += (&sub == command.commands.data() ? "" : " ") + last_word(sub.path);
    out += "' options='";
    std::string flags;
    for (const auto& option : command.options) {
      for (const auto& flag : option.flags) flags += (flags.empty() ? "" : " ") + flag;
    }
    out += flags + "' ;;\n";
  });
  return out +
         "  esac\n"
         "  word=${COMP_WORDS[COMP_CWORD]}\n"
         "  case $word in\n"
         "    -*) mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\") ;;\n"
         "    *) mapfile -t COMPREPLY < <(compgen -W \"$commands\" -- \"$word\") ;;\n"
         "  esac\n"
         "}\n"
         "complete -o bashdefault -o default -F _verbena " +
         program.path + "\n";
}

std::string zsh(const CommandText& program) {
  std::string out = "#compdef " + program.path + "\n# made by `" + program.path +
                    " completion zsh`\n"
                    "_verbena() {\n"
                    "  local at=" +
                    program.path +
                    " word\n"
                    "  local -a commands options\n"
                    "  for word in \"${(@)words[2,CURRENT-1]}\"; do\n"
                    "    case \"$at $word\" in (" +
                    paths_pattern(program) +
                    ") at=\"$at $word\" ;; esac\n"
                    "  done\n"
                    "  case $at in\n";
  // _describe splits "name:description" at the first colon; no name has one, so none is escaped.
  each_command(program, [&](const CommandText& command) {
    out += "    ('" + command.path + "')\n      commands=(";
    for (const auto& sub : command.commands) out += "\n        " + single_quoted(last_word(sub.path) + ":" + sub.what);
    out += ")\n      options=(";
    for (const auto& option : command.options) {
      for (const auto& flag : option.flags) out += "\n        " + single_quoted(flag + ":" + option.what);
    }
    out += ") ;;\n";
  });
  return out +
         "  esac\n"
         "  if [[ $PREFIX == -* ]]; then\n"
         "    _describe -o option options\n"
         "  elif (( $#commands )); then\n"
         "    _describe command commands\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "_verbena \"$@\"\n";
}

std::string fish(const CommandText& program) {
  std::string out = "# fish completion for " + program.path + ", made by `" + program.path +
                    " completion fish`\n"
                    "set -g __verbena_paths";
  each_command(program, [&](const CommandText& command) {
    if (command.path != program.path) out += " " + fish_quoted(command.path);
  });
  out +=
      "\n"
      "function __verbena_at\n"
      "  set -l at " +
      program.path +
      "\n"
      "  for word in (commandline -opc)[2..]\n"
      "    if contains -- \"$at $word\" $__verbena_paths\n"
      "      set at \"$at $word\"\n"
      "    end\n"
      "  end\n"
      "  test \"$at\" = \"$argv[1]\"\n"
      "end\n";
  each_command(program, [&](const CommandText& command) {
    const std::string head =
        "complete -c " + program.path + " -n " + fish_quoted("__verbena_at \"" + command.path + "\"");
    for (const auto& sub : command.commands) {
      out += head + " -f -a " + fish_quoted(last_word(sub.path)) + " -d " + fish_quoted(sub.what) + "\n";
    }
    for (const auto& option : command.options) {
      out += head;
      for (const auto& flag : option.flags) {
        out += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
      }
      out += (option.value.empty() ? "" : " -r") + std::string(" -d ") + fish_quoted(option.what) + "\n";
    }
  });
  return out;
}

}  // namespace

std::string completion(const CommandText& program, const std::string& shell) {
  if (shell == "bash") return bash(program);
  if (shell == "zsh") return zsh(program);
  if (shell == "fish") return fish(program);
  return "";
}

}  // namespace verbena::cli
