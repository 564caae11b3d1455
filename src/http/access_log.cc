#include "http/access_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>

#include "base/log.h"

namespace verbena::http {
namespace {

constexpr size_t path_shown_max = 3 * 1024 + 256;  // a key of 1024 bytes, percent-encoded, and its bucket

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a full disk must not stop the service
    text.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

std::string format_access_line(const AccessLine& line) {
  const time_t seconds = line.time_us / 1'000'000;
  tm parts;
  gmtime_r(&seconds, &parts);
  return fmt::format(
      "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z peer={} key={} method={} path=\"{}\" door={} status={} error={} "
      "bytes_in={} bytes_out={} rdma_bytes={} duration_us={} id={}\n",
      parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
      line.time_us / 1000 % 1000, line.peer, line.access_key.empty() ? "-" : log::printable(line.access_key),
      log::printable(line.method, 32), log::printable(line.path, path_shown_max), line.door, line.status,
      line.error_code.empty() ? "-" : line.error_code, line.bytes_in, line.bytes_out, line.rdma_bytes, line.duration_us,
      line.request_id);
}

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path) {
  const int fd =
      path == "-" ? ::dup(STDOUT_FILENO) : ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) return fail(Errc::bad_config, "access log: open", errno);
  return std::unique_ptr<AccessLog>(new AccessLog(fd));
}

AccessLog::AccessLog(int fd) : fd_(fd), writer_([this] { run(); }) {}

AccessLog::~AccessLog() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_one();
  writer_.join();
  ::close(fd_);
}

void AccessLog::write(const AccessLine& line) {
  const std::string text = format_access_line(line);
  std::lock_guard lock(mutex_);
  if (queued_.size() + text.size() > queued_bytes_max) {
    ++dropped_;
    return;
  }
  const bool was_empty = queued_.empty();
  queued_ += text;
  if (was_empty) ready_.notify_one();
}

uint64_t AccessLog::dropped() const {
  std::lock_guard lock(mutex_);
  return dropped_;
}

void AccessLog::run() {
  std::string batch;
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [this] { return stopping_ || !queued_.empty(); });
    if (queued_.empty()) return;
    // A short pause gathers the lines of a busy moment into one write.
    ready_.wait_for(lock, std::chrono::milliseconds(50), [this] { return stopping_; });
    batch.clear();
    batch.swap(queued_);
    lock.unlock();
    write_all(fd_, batch);
    lock.lock();
  }
}

}  // namespace verbena::http
