#include "base/config_yaml.h"

namespace verbena {
namespace {

constexpr int nesting_max = 4;

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' || c == '\t' ? ' ' : c;
  }
  return out + '"';
}

}  // namespace

ConfigResult check_yaml_shape(std::string_view text, std::string_view origin) {
  size_t line = 1;
  int open = 0;
  size_t indent = 0;
  bool at_start = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line, indent = 0, at_start = true;
      continue;
    }
    if (at_start && (c == ' ' || c == '-' || c == '?')) {
      if (++indent > 64)
        return std::unexpected(std::string(origin) + ":" + std::to_string(line) + ": nested too deeply");
      continue;
    }
    at_start = false;
    if (c == '[' || c == '{') ++open;
    if (c == ']' || c == '}') --open;
    if (open > nesting_max)
      return std::unexpected(std::string(origin) + ":" + std::to_string(line) + ": nested too deeply");
    const bool word_start =
        i == 0 || text[i - 1] == ' ' || text[i - 1] == '\n' || text[i - 1] == ',' || text[i - 1] == '[';
    if (word_start && (c == '&' || c == '*')) {
      return std::unexpected(std::string(origin) + ":" + std::to_string(line) +
                             ": anchors and aliases are not used here");
    }
  }
  return {};
}

std::string flow_text(const YAML::Node& node) {
  if (!node.IsSequence() && !node.IsMap()) return node.IsScalar() ? in_quotes(node.Scalar()) : "~";
  const bool map = node.IsMap();
  std::string out;
  for (const auto& item : node) {
    if (!out.empty()) out += ", ";
    out += map ? in_quotes(item.first.IsScalar() ? item.first.Scalar() : "?") + ": " + flow_text(item.second)
               : flow_text(item);
  }
  return (map ? "{" : "[") + out + (map ? "}" : "]");
}

}  // namespace verbena
