#include "base/kernel_files.h"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace verbena {

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::vector<std::string> entries_of(const std::filesystem::path& folder, size_t most) {
  std::vector<std::string> names;
  std::error_code error;
  // Without a range-based loop, whose steps throw: devices may go meanwhile.
  std::filesystem::directory_iterator it(folder, error);
  const std::filesystem::directory_iterator end;
  for (; !error && it != end && names.size() < most; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace verbena
