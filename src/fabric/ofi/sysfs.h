#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace verbena::fabric::ofi {

// The first line of a file of sysfs; empty if it cannot be read.
inline std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace verbena::fabric::ofi
