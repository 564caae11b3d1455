#include "server/secret_files.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "base/private_file.h"

namespace verbena::server {
namespace {

constexpr size_t secret_bytes_max = 1024;
constexpr std::array<const char*, 2> secret_names{"VERBENA_ROOT_ACCESS_KEY", "VERBENA_ROOT_SECRET_KEY"};

std::expected<void, std::string> take(const char* name) {
  const std::string file_name = std::string(name) + "_FILE";
  const char* value = std::getenv(name);
  const char* path = std::getenv(file_name.c_str());
  if (value != nullptr && path != nullptr) {
    return std::unexpected(std::string(name) + " and " + file_name + " are both set: leave one of them out");
  }
  if (value != nullptr && std::strpbrk(value, "\r\n") != nullptr) {
    return std::unexpected(std::string(name) + " has a line break in it: take it out, or name a file by " + file_name);
  }
  if (path == nullptr) return {};
  const auto secret = read_secret_line(path, secret_bytes_max, for_whomever);
  if (!secret) return std::unexpected(file_name + ": " + log::printable(path, 256) + " " + secret.error());
  // Keys are read from the environment; it is this process's own copy, and no child is started.
  std::string text(secret->text());
  ::setenv(name, text.c_str(), 1);
  wipe(text);
  return {};
}

}  // namespace

std::expected<void, std::string> take_secret_files() {
  for (const char* name : secret_names) {
    if (auto done = take(name); !done) return done;
  }
  return {};
}

}  // namespace verbena::server
