// Bytes read from a connection and not used yet. Kept small when possible, so that idle connections need little memory.
// Internal to http/.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "http/wire.h"

namespace verbena::http {

class Input {
 public:
  static constexpr size_t small_bytes = 4096;  // holds the usual signed head

  explicit Input(Wire& wire) : wire_(wire), data_(small_bytes) {}

  std::string_view view() const { return as_text(Bytes(data_).subspan(begin_, end_ - begin_)); }
  bool empty() const { return begin_ == end_; }
  void consume(size_t n) {
    begin_ += n;
    if (begin_ == end_) begin_ = end_ = 0;
  }

  // Free space behind the waiting bytes, in a buffer of at most `size_max` bytes. Empty when it is full.
  MutableBytes room(size_t size_max) {
    if (end_ == data_.size()) {
      if (begin_ != 0) {
        std::memmove(data_.data(), data_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
      } else if (data_.size() < size_max) {
        data_.resize(std::min(size_max, data_.size() * 2));
      }
    }
    return MutableBytes(data_).subspan(end_);
  }
  void added(size_t n) { end_ += n; }

  // Reads more into the room. 0: the peer has ended its stream. too_large when the room is full.
  Task<Result<size_t>> fill(size_t size_max, std::chrono::nanoseconds timeout) {
    const MutableBytes into = room(size_max);
    if (into.empty()) co_return fail(Errc::too_large, "connection: input buffer");
    auto n = co_await wire_.read_some(into, timeout);
    if (n) added(*n);
    co_return n;
  }

  // Reads at most into.size() bytes: waiting ones, else straight from the wire.
  Task<Result<size_t>> read(MutableBytes into, std::chrono::nanoseconds timeout) {
    if (empty()) return wire_.read_some(into, timeout);
    return take(into);
  }

  // Called between requests: frees the memory of a large head.
  void shrink() {
    if (data_.size() == small_bytes || end_ - begin_ > small_bytes) return;
    std::vector<std::byte> fresh(small_bytes);
    std::memcpy(fresh.data(), data_.data() + begin_, end_ - begin_);
    data_ = std::move(fresh);
    end_ -= begin_;
    begin_ = 0;
  }

 private:
  Task<Result<size_t>> take(MutableBytes into) {
    const size_t n = std::min(into.size(), end_ - begin_);
    std::memcpy(into.data(), data_.data() + begin_, n);
    consume(n);
    co_return n;
  }

  Wire& wire_;
  std::vector<std::byte> data_;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace verbena::http
