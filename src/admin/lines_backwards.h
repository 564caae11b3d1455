// The lines of a file from its end to its beginning, in bounded memory whatever the file holds. Internal to admin/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace verbena::admin {

class LinesBackwards {
 public:
  // Longer ones are left out: no line of the access log has so much.
  static constexpr size_t line_bytes_max = 128 * 1024;

  // What lies before `end` of an open file, which outlives this.
  LinesBackwards(int fd, uint64_t end) : fd_(fd), begin_(end) {}

  enum class Found : uint8_t {
    line,
    nothing,  // some of the file was read, and no line came of it
    end,      // the file's beginning, or it cannot be read (any more)
  };
  // `line` is without its end and holds until the next call. Reads at most one block.
  Found next(std::string_view& line);

  uint64_t place() const { return begin_ + length_; }  // what lies before it is still to come
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t lines_left_out() const { return left_out_; }  // too long ones

 private:
  bool fill();

  int fd_;
  uint64_t begin_;  // of the buffer in the file
  std::string buffer_;
  size_t length_ = 0;  // of the buffer: what is behind has been told
  bool too_long_ = false;
  uint64_t bytes_read_ = 0, left_out_ = 0;
};

}  // namespace verbena::admin
