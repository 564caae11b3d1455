#include "cli/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/bytes.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {
namespace {

constexpr std::chrono::milliseconds redraw_every{100};
constexpr size_t bar_width = 24;

}  // namespace

std::string progress_line(const std::string& name, uint64_t done, std::optional<uint64_t> total, double seconds,
                          unsigned columns) {
  const uint64_t rate = seconds > 0 ? static_cast<uint64_t>(static_cast<double>(done) / seconds) : 0;
  std::string numbers;
  if (total) {
    const double part = *total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(*total));
    const size_t filled = static_cast<size_t>(part * static_cast<double>(bar_width));
    numbers = fmt::format("[{}{}] {:3}%  {} / {}", std::string(filled, '#'), std::string(bar_width - filled, ' '),
                          static_cast<int>(part * 100), format_size(done), format_size(*total));
  } else {
    numbers = format_size(done);
  }
  numbers += fmt::format("  {}/s", format_size(rate));
  // The name is shortened first, at its beginning: file names differ at the end.
  const size_t room = columns > numbers.size() + 2 ? columns - numbers.size() - 2 : 0;
  if (room > 3 && !name.empty()) return shown(name, room) + "  " + numbers;
  if (numbers.size() > columns) numbers.resize(columns);
  return numbers;
}

Progress::Progress(std::string name, std::optional<uint64_t> total, bool wanted)
    : name_(std::move(name)), total_(total), on_(wanted && ::isatty(STDERR_FILENO) == 1) {
  winsize size{};
  if (on_ && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10) columns_ = size.ws_col - 1;
  began_ = std::chrono::steady_clock::now();
}

Progress::~Progress() {
  if (on_ && drawn_ != std::chrono::steady_clock::time_point{}) std::fputs("\r\033[K", stderr);
}

void Progress::add(uint64_t bytes) {
  done_ += bytes;
  if (on_ && std::chrono::steady_clock::now() - drawn_ >= redraw_every) draw();
}

void Progress::draw() {
  drawn_ = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(drawn_ - began_).count();
  fmt::print(stderr, "\r{}\033[K", progress_line(name_, done_, total_, seconds, columns_));
  std::fflush(stderr);
}

}  // namespace verbena::cli
