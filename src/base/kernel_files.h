// Folders and files in which the kernel tells of the machine (sysfs, procfs, devices). What cannot be read is empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace verbena {

// The first line of a small file.
std::string first_line(const std::filesystem::path& file);
// The names in a folder, in order; no more than `most`.
std::vector<std::string> entries_of(const std::filesystem::path& folder, size_t most = SIZE_MAX);

}  // namespace verbena
