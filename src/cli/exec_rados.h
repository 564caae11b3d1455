// `verbena-rados`: the same program, linked with librados. It is beside `verbena` in a build, and in a folder of its
// own when installed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace verbena::cli {

// The places where it is searched for, in order, by a program in `folder`; empty: unknown.
std::vector<std::filesystem::path> rados_programs(const std::filesystem::path& folder);

// Executes it: the same process, arguments and environment. Returns only on failure: the reason, a sentence for users.
std::string exec_rados(char** arguments);

}  // namespace verbena::cli
