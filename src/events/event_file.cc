#include "events/event_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/private_file.h"

namespace verbena::events {
namespace {

std::unexpected<Error> file_error(const char* what) { return fail(Errc::io_error, what, errno); }

// The end of the last complete line.
Result<off_t> whole_lines(int fd, off_t size) {
  char piece[4096];
  while (size > 0) {
    const auto length = static_cast<size_t>(std::min<off_t>(size, sizeof piece));
    const off_t from = size - static_cast<off_t>(length);
    if (::pread(fd, piece, length, from) != static_cast<ssize_t>(length)) return file_error("events: read the file");
    const std::string_view text(piece, length);
    const size_t end = text.rfind('\n');
    if (end != std::string_view::npos) return from + static_cast<off_t>(end) + 1;
    size = from;
  }
  return 0;
}

Result<void> write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return file_error("events: write to the file");
    text.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

class EventFile final : public Target {
 public:
  explicit EventFile(std::string path) : path_(std::move(path)) {}

  Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) override {
    auto done = append(messages);
    if (done) delivered = messages.size();
    co_return done;
  }

 private:
  Result<void> append(const std::vector<std::string>& messages) {
    const Fd file(::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600));
    struct stat is{};
    if (!file || ::fstat(file.get(), &is) != 0) return file_error("events: open the file");
    if (!S_ISREG(is.st_mode)) return fail(Errc::io_error, "events: the target is no plain file");
    VB_ASSIGN(const off_t end, whole_lines(file.get(), is.st_size));
    if (end != is.st_size && ::ftruncate(file.get(), end) != 0) return file_error("events: cut the file");
    std::string lines;
    for (const std::string& message : messages) lines.append(message).push_back('\n');
    VB_TRY(may_send());
    auto written = write_all(file.get(), lines);
    if (written && ::fdatasync(file.get()) != 0) written = file_error("events: sync the file");
    if (!written) {
      (void)!::ftruncate(file.get(), end);
      return written;
    }
    return end == 0 ? sync_folder_of(path_) : Result<void>();
  }

  const std::string path_;
};

}  // namespace

std::unique_ptr<Target> make_event_file(const TargetSettings& settings) {
  return std::make_unique<EventFile>(settings.path);
}

}  // namespace verbena::events
