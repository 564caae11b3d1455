// The lines of a file from its end to its beginning, in bounded memory whatever the file contains. Internal to admin/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace verbena::admin {

class LinesBackwards {
 public:
  // Longer lines are left out: the access log has none.
  static constexpr size_t line_bytes_max = 128 * 1024;

  // Reads up to `end` of an open file, which outlives this.
  LinesBackwards(int fd, uint64_t end) : fd_(fd), begin_(end) {}

  enum class Found : uint8_t {
    line,
    nothing,  // part of the file was read without completing a line
    end,      // the file's beginning, or it cannot be read (any more)
  };
  // `line` has no line end and is valid until the next call. Reads at most one block.
  Found next(std::string_view& line);

  uint64_t place() const { return begin_ + length_; }  // the unread part ends here
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t lines_left_out() const { return left_out_; }  // too long ones

 private:
  bool fill();

  int fd_;
  uint64_t begin_;  // of the buffer in the file
  std::string buffer_;
  size_t length_ = 0;  // of the unread part of the buffer
  bool too_long_ = false;
  uint64_t bytes_read_ = 0, left_out_ = 0;
};

}  // namespace verbena::admin
