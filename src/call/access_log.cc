#include "call/access_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/date.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/metrics.h"
#include "call/access_log_history.h"
#include "observe/record.h"

namespace verbena::call {
namespace {

constexpr auto gather_time = std::chrono::milliseconds(50);  // lines of a burst are written together
constexpr auto gather_step = std::chrono::milliseconds(5);   // interval of checks for a full buffer
constexpr auto tell_drops_every = std::chrono::seconds(1);
constexpr auto tell_lost_every = std::chrono::minutes(1);
constexpr size_t lines_at_once = 1 << 20;

metrics::Counter& dropped_counter(std::string_view kind) {
  return metrics::counter("verbena_access_log_dropped_total", "Requests that the access log lacks",
                          {{"kind", std::string(kind)}});
}

metrics::Counter& dropped_lines(LogKind kind) {
  static const auto counters = [] {
    std::array<metrics::Counter*, log_kinds> made{};
    for (size_t i = 0; i < log_kinds; ++i) made[i] = &dropped_counter(name_of(static_cast<LogKind>(i)));
    return made;
  }();
  return *counters[static_cast<size_t>(kind)];
}

// Lines of any kind that could not be written.
metrics::Counter& dropped_by_disk() {
  static auto& counter = dropped_counter("disk");
  return counter;
}

void append_line(std::string& out, const AccessLine& line) {
  out += "{\"time\":\"";
  append_iso8601(out, line.time_us);
  out += '"';
  const auto text = [&](std::string_view name, std::string_view value) {
    if (value.empty()) return;
    out.append(",\"").append(name).append("\":");
    observe::append_json_text(out, value);
  };
  text("door", line.door);
  observe::each_text(line, text);
  fmt::format_to(std::back_inserter(out), ",\"status\":{}", line.status);
  text("error", line.error_code);
  if (line.items != 0) fmt::format_to(std::back_inserter(out), ",\"items\":{}", line.items);
  if (line.of_items != 0) fmt::format_to(std::back_inserter(out), ",\"of_items\":{}", line.of_items);
  if (line.cut) out += ",\"cut\":true";
  fmt::format_to(std::back_inserter(out), ",\"bytes_in\":{},\"bytes_out\":{},\"rdma_bytes\":{},\"duration_us\":{}",
                 line.bytes_in, line.bytes_out, line.rdma_bytes, line.duration_us);
  text("transport", line.transport);
  text("id", line.request_id);
  out += "}\n";
}

int open_file(const std::string& path) {
  return path == "-" ? ::dup(STDOUT_FILENO) : ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
}

uint64_t size_of(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
}

// As after a full disk, or a crash. The log itself is open for writing only.
bool ends_inside_line(int fd) {
  const uint64_t size = size_of(fd);
  if (size == 0) return false;
  const Fd readable(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC));
  char last = '\n';
  return ::pread(readable.get(), &last, 1, static_cast<off_t>(size - 1)) == 1 && last != '\n';
}

}  // namespace

std::string format_access_line(const AccessLine& line) {
  std::string out;
  append_line(out, line);
  return out;
}

Result<std::unique_ptr<AccessLog>> AccessLog::open(Options options) {
  const int fd = open_file(options.path);
  if (fd < 0) return fail(Errc::bad_config, "access log: open", errno);
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(options), fd));
}

AccessLog::AccessLog(Options options, int fd)
    : options_(std::move(options)), fd_(fd), size_(size_of(fd)), is_torn_(ends_inside_line(fd)), writer_([this] {
        run();
      }) {
  dropped_by_disk();
}

AccessLog::~AccessLog() {
  stopping_ = true;
  wake();
  writer_.join();
  ::close(fd_);
}

AccessLog::Shard& AccessLog::own_shard() {
  static std::atomic<size_t> threads{0};
  thread_local const size_t mine = threads.fetch_add(1, std::memory_order_relaxed);
  return shards_[mine % shards_max];
}

void AccessLog::write(const AccessLine& line) {
  Shard& shard = own_shard();
  const LogKind kind = kind_of(line);
  bool much = false;
  {
    std::lock_guard lock(shard.mutex);
    if (!shard.shares.take(kind, line, observe::record_size(line))) {
      dropped_lines(kind).add();
      dropped_.fetch_add(1, std::memory_order_relaxed);
      shard.drops.add(kind, line, 1);
    } else {
      observe::append_record(shard.records, line);
      much = shard.records.size() >= lines_at_once / 4;
    }
  }
  if (much && !much_.load(std::memory_order_relaxed)) much_.store(true, std::memory_order_relaxed);
  if (pending_.load(std::memory_order_relaxed) == 0) wake();
}

void AccessLog::reopen() {
  reopen_ = true;
  wake();
}

void AccessLog::wake() {
  if (pending_.exchange(1) == 0) pending_.notify_one();
}

void AccessLog::run() {
  for (bool last = false; !last;) {
    pending_.wait(0);
    for (auto gathered = gather_time; gathered.count() > 0 && !stopping_ && !much_; gathered -= gather_step) {
      std::this_thread::sleep_for(gather_step);
    }
    pending_ = 0;
    much_ = false;
    last = stopping_;
    if (reopen_.exchange(false)) open_again();
    drain();
  }
}

void AccessLog::drain() {
  std::string records, lines;
  const Deadline now = SteadyClock::now();
  for (Shard& shard : shards_) {
    {
      std::lock_guard lock(shard.mutex);
      records.swap(shard.records);
      shard.shares.written(now);
      untold_.take(shard.drops);
    }
    for (std::string_view rest = records; !rest.empty();) add(lines, observe::take_record(rest));
    records.clear();
  }
  if (now >= tell_drops_at_ || stopping_) {
    tell_drops_at_ = now + tell_drops_every;
    tell_drops(lines);
  }
  put_out(lines);
  tell_lost(now);
}

// Rotates between lines, so that no file ends in the middle of one.
void AccessLog::add(std::string& lines, const AccessLine& line) {
  append_line(lines, line);
  const bool full = rotates() && size_ + lines.size() >= options_.size_max;
  if (!full && lines.size() < lines_at_once) return;
  put_out(lines);
  lines.clear();
  if (full) rotate();
}

void AccessLog::tell_drops(std::string& lines) {
  const auto tell = [&](LogKind kind, const LogDrops::Of& who, uint64_t count) {
    AccessLine line;
    line.time_us = system_clock().now_us();
    line.peer = who.peer;
    line.principal = who.principal;
    line.action = not_logged(kind);
    line.items = static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX));
    add(lines, line);
  };
  untold_.each(tell);
  untold_ = {};
}

// A full disk must not stop the service: what cannot be written is lost, and reported.
void AccessLog::put_out(std::string_view lines) {
  if (lines.empty()) return;
  std::string_view end = is_torn_ ? "\n" : "", rest = lines;
  int error = write_some(end);
  if (error == 0) {
    error = write_some(rest);
    const std::string_view written = lines.substr(0, lines.size() - rest.size());
    is_torn_ = !written.empty() && written.back() != '\n';
  }
  if (error != 0) lose(static_cast<uint64_t>(std::ranges::count(rest, '\n')), error);
}

int AccessLog::write_some(std::string_view& text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    size_ += static_cast<uint64_t>(n);
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

void AccessLog::lose(uint64_t lines, int error) {
  dropped_by_disk().add(lines);
  dropped_.fetch_add(lines, std::memory_order_relaxed);
  untold_lost_ += lines;
  lost_errno_ = error;
}

void AccessLog::tell_lost(Deadline now) {
  if (untold_lost_ == 0 || (now < tell_lost_at_ && !stopping_)) return;
  tell_lost_at_ = now + tell_lost_every;
  log::error("access log: cannot write to {}: {}; lines lost since the last such message: {}", options_.path,
             std::strerror(lost_errno_), std::exchange(untold_lost_, 0));
}

// path.1 is the newest; of the oldest, only what keep_history() keeps remains. Where a file cannot be moved, those that
// are newer stay as they are, and it is tried again when as much again is written.
void AccessLog::rotate() {
  const auto name = [&](unsigned n) { return n == 0 ? options_.path : options_.path + "." + std::to_string(n); };
  if (!is_oldest_kept_) keep_history(name(options_.files_max), kept_path(options_.path), options_.size_max);
  is_oldest_kept_ = true;
  for (unsigned n = options_.files_max; n > 0; --n) {
    if (::rename(name(n - 1).c_str(), name(n).c_str()) == 0) {
      if (n == options_.files_max) is_oldest_kept_ = false;
    } else if (errno != ENOENT) {
      log::error("access log: cannot move {} to {}: {}; it goes on in the old file", name(n - 1), name(n),
                 std::strerror(errno));
      size_ = 0;
      return;
    }
  }
  if (!open_again()) size_ = 0;  // else the next line would rotate again
}

bool AccessLog::open_again() {
  if (options_.path == "-") return true;
  const int fd = open_file(options_.path);
  if (fd < 0) {
    log::error("access log: cannot open {} again: {}; it goes on in the old file", options_.path, std::strerror(errno));
    return false;
  }
  ::close(fd_);
  fd_ = fd;
  size_ = size_of(fd);
  is_torn_ = ends_inside_line(fd);
  return true;
}

}  // namespace verbena::call
