#include "base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/fd.h"

namespace verbena {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::unexpected<Error> cannot(const char* what) {
  const int error = errno;
  return fail(error == ENOSPC || error == EDQUOT ? Errc::insufficient_storage : Errc::io_error, what, error);
}

Result<void> put_file(const std::filesystem::path& path, std::string_view text, const struct stat* like) {
  const std::string beside = path.string() + ".new";
  ::unlink(beside.c_str());
  {
    const Fd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return cannot("create");
    if (like != nullptr) {
      // Without the right to give files away it stays this process's own.
      if (like->st_uid != ::geteuid() && ::fchown(file.get(), like->st_uid, like->st_gid) != 0) errno = 0;
      if (::fchmod(file.get(), like->st_mode & 0700) != 0) return cannot("create");
    }
    if (!write_all(file.get(), text) || ::fsync(file.get()) != 0) return cannot("write");
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) return cannot("rename to");
  return {};
}

}  // namespace

Result<void> put_private_file(const std::filesystem::path& path, std::string_view text) {
  return put_file(path, text, nullptr);
}

Result<void> sync_folder_of(const std::filesystem::path& path) {
  const auto parent = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const Fd folder(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) return cannot("make durable");
  return {};
}

Result<void> replace_private_file(const std::filesystem::path& path, std::string_view text) {
  VB_TRY(put_private_file(path, text));
  return sync_folder_of(path);
}

Result<void> replace_private_file_alike(const std::filesystem::path& path, std::string_view text) {
  struct stat there{};
  const bool replaces = ::stat(path.c_str(), &there) == 0;
  std::error_code missing;
  const auto linked = std::filesystem::canonical(path, missing);
  const auto& target = missing ? path : linked;
  VB_TRY(put_file(target, text, replaces ? &there : nullptr));
  return sync_folder_of(target);
}

std::expected<Secret, std::string> read_secret_file(const std::filesystem::path& path, size_t bytes_max,
                                                    mode_t not_set) {
  using Wrong = std::unexpected<std::string>;
  const auto unreadable = [] { return Wrong(std::string("cannot be read: ") + std::strerror(errno)); };
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat is{};
  if (!file || ::fstat(file.get(), &is) != 0) return unreadable();
  if (!S_ISREG(is.st_mode)) return Wrong("is not a regular file");
  if ((is.st_mode & not_set) != 0) return Wrong("is open to others: chmod 600 it");
  Secret read(bytes_max + 1);
  size_t size = 0;
  while (size < read.size()) {
    const ssize_t n = ::read(file.get(), read.writable().data() + size, read.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return unreadable();
    if (n == 0) return Secret(read.bytes().first(size));
    size += static_cast<size_t>(n);
  }
  return Wrong("is longer than " + std::to_string(bytes_max) + " bytes");
}

std::expected<Secret, std::string> read_secret_line(const std::filesystem::path& path, size_t bytes_max,
                                                    mode_t not_set) {
  auto read = read_secret_file(path, bytes_max, not_set);
  if (!read) return read;
  std::string_view text = read->text();
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  if (text.empty()) return std::unexpected("is empty");
  if (text.find_first_of(std::string_view("\n\r\0", 3)) != std::string_view::npos) {
    return std::unexpected("has more than one line");
  }
  return Secret(as_bytes(text));
}

}  // namespace verbena
