#include "base/config_template.h"

#include "base/config.h"

namespace verbena {

std::string config_template() {
  std::string text =
      "# Verbena's configuration: every key with its default. Take the '#' away to set one (and that of its section).\n"
      "# VERBENA_* environment variables (VERBENA_RDMA_PORT for rdma.port) override this file, flags override both.\n"
      "# Sizes take KiB, MiB and GiB; times are seconds unless the name says _ms.\n";
  std::string_view section;
  for (const auto& key : config_keys()) {
    const size_t dot = key.name.find('.');
    const auto of = dot == std::string_view::npos ? std::string_view() : key.name.substr(0, dot);
    const auto name = of.empty() ? key.name : key.name.substr(dot + 1);
    if (of != section) text += "\n#" + std::string(of) + ":";
    section = of;
    text += "\n# " + std::string(key.help) + "\n#" + (of.empty() ? "" : "  ") + std::string(name) + ":" +
            (key.fallback.empty() ? "" : " " + std::string(key.fallback)) + "\n";
  }
  return text;
}

}  // namespace verbena
