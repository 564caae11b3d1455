#include "admin/network_links.h"

#include <algorithm>
#include <fstream>
#include <string_view>

#include "base/kernel_files.h"

namespace verbena::admin {
namespace {

constexpr size_t stack_max = 64;  // the kernel itself stacks eight, but a bond has several below it

}  // namespace

std::vector<std::string> NetworkLinks::names() const { return entries_of(folder_); }

std::vector<std::string> NetworkLinks::below(const std::string& interface) const {
  constexpr std::string_view prefix = "lower_";
  std::vector<std::string> out;
  for (const std::string& entry : entries_of(folder_ / interface)) {
    if (entry.starts_with(prefix)) out.push_back(entry.substr(prefix.size()));
  }
  return out;
}

bool NetworkLinks::sends_unnamed(const std::string& interface) const {
  const std::string own = first_line(folder_ / interface / "ifindex"),
                    through = first_line(folder_ / interface / "iflink");
  return !own.empty() && !through.empty() && own != through && below(interface).empty();
}

std::vector<std::string> NetworkLinks::stack(const std::string& interface) const {
  std::vector<std::string> out{interface};
  for (size_t i = 0; i < out.size() && out.size() < stack_max; ++i) {
    for (std::string& name : below(out[i])) {
      if (std::ranges::find(out, name) == out.end()) out.push_back(std::move(name));
    }
  }
  return out;
}

bool NetworkLinks::is_macsec(const std::string& interface) const {
  std::ifstream file(folder_ / interface / "uevent");
  for (std::string line; std::getline(file, line);) {
    if (line == "DEVTYPE=macsec") return true;
  }
  return false;
}

bool NetworkLinks::has_phy(const std::string& interface) const {
  std::error_code ec;
  return std::filesystem::exists(folder_ / interface / "phydev", ec);
}

}  // namespace verbena::admin
