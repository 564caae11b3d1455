#include "admin/lines_backwards.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbena::admin {
namespace {

constexpr size_t block_bytes = 256 * 1024;

}  // namespace

LinesBackwards::Found LinesBackwards::next(std::string_view& line) {
  for (bool filled = false;;) {
    if (length_ > 0) {
      const bool ends = buffer_[length_ - 1] == '\n';
      if (ends) too_long_ = false;  // the line that was too long begins after it
      const size_t body = ends ? length_ - 1 : length_;
      const size_t before = body == 0 ? std::string::npos : buffer_.rfind('\n', body - 1);
      if (before != std::string::npos || begin_ == 0) {
        const size_t from = before == std::string::npos ? 0 : before + 1;
        line = std::string_view(buffer_).substr(from, body - from);
        length_ = from;
        return std::exchange(too_long_, false) ? Found::nothing : Found::line;
      }
      if (length_ > line_bytes_max || too_long_) {
        if (!std::exchange(too_long_, true)) ++left_out_;
        length_ = 0;
      }
    }
    if (begin_ == 0 && length_ == 0) return Found::end;
    if (filled) return Found::nothing;
    if (!fill()) return Found::end;
    filled = true;
  }
}

// Reads one more block, in front of the unread rest.
bool LinesBackwards::fill() {
  const size_t wanted = static_cast<size_t>(std::min<uint64_t>(block_bytes, begin_));
  std::string more(wanted, '\0');
  for (size_t at = 0; at < wanted;) {
    const ssize_t n = ::pread(fd_, more.data() + at, wanted - at, static_cast<off_t>(begin_ - wanted + at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;  // truncated meanwhile, or a disk error
    at += static_cast<size_t>(n);
  }
  more.append(buffer_, 0, length_);
  buffer_ = std::move(more);
  length_ += wanted;
  begin_ -= wanted;
  bytes_read_ += wanted;
  return wanted > 0;
}

}  // namespace verbena::admin
