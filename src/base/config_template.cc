#include "base/config_template.h"

#include "base/config.h"

#include <algorithm>

namespace verbena {
namespace {

std::string indent_below(std::string_view section) {
  if (section.empty()) return {};
  return std::string(2 * (1 + static_cast<size_t>(std::ranges::count(section, '.'))), ' ');
}

// The lines that lead from one section into another ("a.b": "#a:" and "#  b:"), without their common ones.
std::string open_section(std::string_view to, std::string_view from, std::string& text) {
  for (size_t end = 0; end < to.size();) {
    const size_t start = end == 0 ? 0 : end + 1;
    end = std::min(to.find('.', start), to.size());
    const auto path = to.substr(0, end);
    if (from == path || from.starts_with(std::string(path) + ".")) continue;
    text += "\n#" + (start == 0 ? std::string() : indent_below(to.substr(0, start - 1))) +
            std::string(to.substr(start, end - start)) + ":";
  }
  return indent_below(to);
}

}  // namespace

std::string config_template() {
  std::string text =
      "# Verbena's configuration: every key with its default. Take the '#' away to set one (and that of its section).\n"
      "# VERBENA_* environment variables (VERBENA_RDMA_PORT for rdma.port) override this file, flags override both.\n"
      "# Sizes take KiB, MiB and GiB; times are seconds unless the name says _ms.\n";
  std::string_view section;
  for (const auto& key : config_keys()) {
    const size_t dot = key.name.rfind('.');
    const auto of = dot == std::string_view::npos ? std::string_view() : key.name.substr(0, dot);
    const auto name = of.empty() ? key.name : key.name.substr(dot + 1);
    const std::string indent = of == section ? indent_below(of) : open_section(of, section, text);
    section = of;
    text += "\n# " + std::string(key.help) + "\n#" + indent + std::string(name) + ":" +
            (key.fallback.empty() ? "" : " " + std::string(key.fallback)) + "\n";
  }
  return text;
}

}  // namespace verbena
