#include "base/private_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
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

}  // namespace

Result<void> put_private_file(const std::filesystem::path& path, std::string_view text) {
  const std::string beside = path.string() + ".new";
  ::unlink(beside.c_str());
  {
    const Fd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return cannot("create");
    if (!write_all(file.get(), text) || ::fsync(file.get()) != 0) return cannot("write");
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) return cannot("rename to");
  return {};
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

}  // namespace verbena
