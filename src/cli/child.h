// A child process whose standard output is read. It is ended, by its pid, when this is destroyed, and with the
// thread that started it: call start() on a thread that lasts as long.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <expected>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace verbena::cli {

class Child {
 public:
  // `arguments[0]` is the program's path. `environment`: added to our own.
  static std::expected<std::unique_ptr<Child>, std::string> start(
      const std::vector<std::string>& arguments, const std::vector<std::pair<std::string, std::string>>& environment);
  ~Child();  // SIGTERM, and SIGKILL if that does not end it in time
  Child(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Reads until `enough` returns true for all text so far. False at the end of output or after `timeout`.
  template <class Fn>
  bool read_until(Fn&& enough, std::chrono::milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!enough(output_)) {
      if (!read_more(deadline)) return enough(output_);
    }
    return true;
  }
  const std::string& output() const { return output_; }
  // Waits for the end. The exit code, or -1 after `timeout` or a signal.
  int wait(std::chrono::milliseconds timeout);
  // User and system time so far, seconds; negative when it cannot be read.
  double cpu_seconds() const;

 private:
  Child(pid_t pid, int out) : pid_(pid), out_(out) {}
  bool read_more(std::chrono::steady_clock::time_point deadline);
  pid_t pid_;
  int out_;
  std::string output_;
};

}  // namespace verbena::cli
