#include "server/secret_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/fd.h"
#include "base/log.h"

namespace verbena::server {
namespace {

constexpr size_t secret_bytes_max = 1024;
constexpr std::array<const char*, 2> secret_names{"VERBENA_ROOT_ACCESS_KEY", "VERBENA_ROOT_SECRET_KEY"};

std::expected<std::string, std::string> read_secret(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, secret_bytes_max + 1> text;
  const ssize_t n = file ? ::read(file.get(), text.data(), text.size()) : -1;
  if (n < 0) return std::unexpected(std::string("cannot be read: ") + std::strerror(errno));
  std::string secret(text.data(), static_cast<size_t>(n));
  if (secret.size() > secret_bytes_max) return std::unexpected("is longer than 1 KiB: not a key");
  if (secret.ends_with('\n')) secret.pop_back();
  if (secret.ends_with('\r')) secret.pop_back();
  if (secret.empty()) return std::unexpected("is empty");
  if (secret.find_first_of(std::string_view("\n\r\0", 3)) != std::string::npos)
    return std::unexpected("has more than one line: not a key");
  return secret;
}

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
  auto secret = read_secret(path);
  if (!secret) return std::unexpected(file_name + ": " + log::printable(path, 256) + " " + secret.error());
  // The environment is where keys are looked up; it is this process's own copy, and no child is started.
  ::setenv(name, secret->c_str(), 1);
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
