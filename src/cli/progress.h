// A progress bar on standard error, on a terminal only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace verbena::cli {

// One line of at most `columns` characters: "name  [####    ]  45%  12 MiB / 27 MiB  98 MiB/s". Without a total there
// is no bar. The name may be a stranger's.
std::string progress_line(const std::string& name, uint64_t done, std::optional<uint64_t> total, double seconds,
                          unsigned columns);

class Progress {
 public:
  // Draws nothing when `wanted` is false or standard error is no terminal.
  Progress(std::string name, std::optional<uint64_t> total, bool wanted);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  void add(uint64_t bytes);

 private:
  void draw();
  std::string name_;
  std::optional<uint64_t> total_;
  bool on_;
  uint64_t done_ = 0;
  unsigned columns_ = 80;
  std::chrono::steady_clock::time_point began_, drawn_{};
};

}  // namespace verbena::cli
