#include "cli/exec_rados.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <cli_places.h>  // made by CMake

namespace verbena::cli {

std::vector<std::filesystem::path> rados_programs(const std::filesystem::path& folder) {
  constexpr const char* name = "verbena-rados";
  std::vector<std::filesystem::path> places;
  if (!folder.empty()) {
    places.push_back(folder / name);
    // Also valid if installed below another root than configured.
    places.push_back((folder / VERBENA_BIN_TO_PROGRAMS / name).lexically_normal());
  }
  const auto installed = std::filesystem::path(VERBENA_PROGRAMS) / name;
  if (places.empty() || places.back() != installed) places.push_back(installed);
  return places;
}

namespace {

// Set to the process id before the exec: execv keeps the id, and a child has another. Not VERBENA_...: those are
// configuration.
constexpr const char* mark = "HANDED_OVER_BY_VERBENA";

// Whether root or the owner of this program owns it: another user could have put it into a folder writable by others.
bool is_trusted(const std::filesystem::path& program) {
  struct stat own{}, other{};
  if (::stat("/proc/self/exe", &own) != 0 || ::stat(program.c_str(), &other) != 0) return true;  // execv reports it
  return other.st_uid == 0 || other.st_uid == own.st_uid;
}

}  // namespace

std::string exec_rados(char** arguments) {
  const std::string process = std::to_string(::getpid());
  if (const char* before = ::getenv(mark); before != nullptr && before == process) {
    return "verbena-rados is a program without the engine over Ceph";
  }
  ::setenv(mark, process.c_str(), 1);
  std::error_code unknown;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  std::string looked_for;
  for (const auto& program : rados_programs(self.parent_path())) {
    if (!is_trusted(program)) return program.string() + " belongs to another user";
    ::execv(program.c_str(), arguments);
    if (errno != ENOENT) return "cannot start " + program.string() + ": " + std::strerror(errno);
    looked_for += (looked_for.empty() ? "" : ", ") + program.string();
  }
  return "the engine over Ceph is not installed: install the package verbena-rados (looked for " + looked_for + ")";
}

}  // namespace verbena::cli
