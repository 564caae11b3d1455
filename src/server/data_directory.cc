#include "server/data_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "auth/identifiers.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/private_file.h"

namespace verbena::server {
namespace {

std::unexpected<std::string> cannot(const std::string& what, const std::filesystem::path& path) {
  return std::unexpected("cannot " + what + " " + path.string() + ": " + std::strerror(errno));
}

std::string octal(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

std::string check_keys(const auth::Credentials& keys) {
  if (!auth::is_access_key(keys.access_key)) {
    return "the root access key must have 3 to 128 printable characters, without '/'";
  }
  if (!auth::is_secret_key(keys.secret_key)) {
    return "the root secret key must have 8 to 256 printable characters";
  }
  return "";
}

auth::Credentials generate() {
  static constexpr std::string_view upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  return {
      .access_key = "VB" + auth::random_text(upper, 18), .secret_key = auth::make_secret_key(), .session_token = ""};
}

std::expected<void, std::string> save(const std::filesystem::path& path, const auth::Credentials& keys) {
  const auto done = replace_private_file(path, keys.access_key + "\n" + keys.secret_key + "\n");
  if (done) return {};
  errno = done.error().sys;
  return cannot(done.error().context, path);
}

std::expected<auth::Credentials, std::string> load(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return cannot("read", path);
  char text[1024];
  const ssize_t n = ::read(fd, text, sizeof text);
  struct stat status{};
  ::fstat(fd, &status);
  ::close(fd);
  if (n < 0) return cannot("read", path);
  if ((status.st_mode & 077) != 0) {
    return std::unexpected(path.string() + " can be read by others; run: chmod 600 " + path.string());
  }
  const std::string_view all(text, static_cast<size_t>(n));
  const size_t first = all.find('\n');
  const size_t second = first == std::string_view::npos ? first : all.find('\n', first + 1);
  if (second == std::string_view::npos)
    return std::unexpected(path.string() + " does not hold two lines: access key, secret key");
  auth::Credentials keys{.access_key = std::string(all.substr(0, first)),
                         .secret_key = std::string(all.substr(first + 1, second - first - 1)),
                         .session_token = ""};
  if (auto wrong = check_keys(keys); !wrong.empty()) return std::unexpected(path.string() + ": " + wrong);
  return keys;
}

// Removes group's and others' permissions from a file or a directory, which an older server may have made. Links are
// not followed. Returns whether there were any.
std::expected<bool, std::string> tighten(const std::filesystem::path& path, int flags) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0)
    return errno == ENOENT ? std::expected<bool, std::string>(false) : cannot("look at", path);
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return false;
  if ((status.st_mode & 077) == 0) return false;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags));
  if (!file || ::fstat(file.get(), &status) != 0) return cannot("open", path);
  if (::fchmod(file.get(), status.st_mode & 0700) != 0) {
    return std::unexpected(path.string() + " can be entered or read by other users (mode " + octal(status.st_mode) +
                           "), and its mode cannot be changed: " + std::strerror(errno) + ". Its owner is user " +
                           std::to_string(status.st_uid));
  }
  return true;
}

// Files made by root in another user's store could not be opened by that user's server afterwards.
std::expected<void, std::string> check_owner(const std::filesystem::path& directory,
                                             const std::filesystem::path& lock) {
  struct stat status{};
  if (::lstat(lock.c_str(), &status) != 0 || status.st_uid == ::geteuid()) return {};
  return std::unexpected(directory.string() + " belongs to user " + std::to_string(status.st_uid) +
                         ", and this is user " + std::to_string(::geteuid()) +
                         ": run it as that user (runuser -u NAME -- verbena ...)");
}

// The directory itself first: from then on no other user can reach its contents.
std::expected<void, std::string> tighten_all(const std::filesystem::path& directory) {
  size_t changed = 0;
  auto done = tighten(directory, O_DIRECTORY);
  if (!done) return std::unexpected(done.error());
  if (*done) {
    log::warn(
        "server: {} could be entered by other users; it is this user's alone now. Clients of other users on this "
        "host need rdma.local_socket in a directory that they can enter",
        directory.string());
  }
  std::error_code ec;
  std::filesystem::recursive_directory_iterator it(directory, ec), end;
  for (; !ec && it != end; it.increment(ec)) {
    // Not fixed, since their readers refuse them: other users may have read or changed their contents by now.
    if (it->path().filename() == "master.keys" || it->path().filename() == "identities.json") continue;
    const bool folder = it->is_directory(ec) && !it->is_symlink(ec);
    done = tighten(it->path(), folder ? O_DIRECTORY : 0);
    if (!done) return std::unexpected(done.error());
    changed += *done ? 1 : 0;
  }
  if (ec) return std::unexpected("cannot look through " + directory.string() + ": " + ec.message());
  if (changed != 0)
    log::warn("server: {} files in {} could be read by other users, which is no longer possible", changed,
              directory.string());
  return {};
}

// nullopt: not set.
std::expected<std::optional<RootKeys>, std::string> environment_keys() {
  const char* access = std::getenv("VERBENA_ROOT_ACCESS_KEY");
  const char* secret = std::getenv("VERBENA_ROOT_SECRET_KEY");
  if ((access == nullptr) != (secret == nullptr)) {
    return std::unexpected("VERBENA_ROOT_ACCESS_KEY and VERBENA_ROOT_SECRET_KEY go together: one of them is missing");
  }
  if (access == nullptr) return std::nullopt;
  RootKeys keys{{.access_key = access, .secret_key = secret, .session_token = ""}, RootKeys::From::environment};
  if (auto wrong = check_keys(keys.credentials); !wrong.empty()) return std::unexpected(wrong);
  return keys;
}

}  // namespace

std::expected<DataDirectory, std::string> DataDirectory::open(const std::filesystem::path& path) {
  ::umask(077);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return cannot("make", path);
  const auto lock_path = path / "server.lock";
  if (auto ours = check_owner(path, lock_path); !ours) return std::unexpected(ours.error());
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return cannot("write in", path);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return std::unexpected(path.string() + " is in use by another server");
  }
  if (auto done = tighten_all(path); !done) {
    ::close(lock);
    return std::unexpected(done.error());
  }
  return DataDirectory(std::filesystem::absolute(path), lock);
}

DataDirectory::DataDirectory(DataDirectory&& other) noexcept : path_(std::move(other.path_)), lock_(other.lock_) {
  other.lock_ = -1;
}

DataDirectory::~DataDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

std::expected<RootKeys, std::string> root_keys(const DataDirectory& directory) {
  auto given = environment_keys();
  if (!given) return std::unexpected(given.error());
  if (*given) return **given;
  const auto path = directory.path() / "credentials";
  if (std::filesystem::exists(path)) {
    auto keys = load(path);
    if (!keys) return std::unexpected(keys.error());
    return RootKeys{std::move(*keys), RootKeys::From::file};
  }
  RootKeys keys{generate(), RootKeys::From::generated};
  if (auto saved = save(path, keys.credentials); !saved) return std::unexpected(saved.error());
  return keys;
}

std::expected<RootKeys, std::string> root_keys_in_memory() {
  auto given = environment_keys();
  if (!given) return std::unexpected(given.error());
  return given->value_or(RootKeys{generate(), RootKeys::From::generated});
}

}  // namespace verbena::server
