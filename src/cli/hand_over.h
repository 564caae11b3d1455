// `verbena-rados`: the same program, linked with librados, which lies beside `verbena` in a build and in a folder of
// its own where it is installed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace verbena::cli {

// Where it is looked for, in this order, by a program that lies in `folder`; empty: that is not known.
std::vector<std::filesystem::path> rados_programs(const std::filesystem::path& folder);

// Becomes it: the same process, arguments and environment. Returns only when that failed: why, a sentence for people.
std::string hand_over_to_rados(char** arguments);

}  // namespace verbena::cli
