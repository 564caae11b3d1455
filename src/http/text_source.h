// For tests and fuzzers: a body that is a string, and a loop to run one coroutine.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "memory/stream.h"

namespace verbena::http {

class TextSource final : public memory::Source {
 public:
  explicit TextSource(std::string_view text) : rest_(text), size_(text.size()) {}
  std::optional<uint64_t> size() const override { return size_; }
  Task<Result<size_t>> read(MutableBytes into) override {
    const size_t n = std::min(into.size(), rest_.size());
    if (n != 0) std::memcpy(into.data(), rest_.data(), n);
    rest_.remove_prefix(n);
    co_return n;
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  uint64_t size_;
};

// All of a source, read `step` bytes at a time as far as `out` says; the error that met it, else ok.
inline Task<void> read_all(memory::Source& source, size_t step, std::string& out, Errc& error) {
  std::vector<std::byte> piece(step);
  for (;;) {
    auto n = co_await source.read(piece);
    if (!n) {
      error = n.error().code;
      co_return;
    }
    out += as_text(Bytes(piece).first(*n));
    if (*n < step) co_return;
  }
}

inline Errc drain(memory::Source& source, size_t step, std::string& out) {
  boost::asio::io_context io;
  Errc error = Errc::ok;
  boost::asio::co_spawn(io, read_all(source, step, out, error), boost::asio::detached);
  io.run();
  return error;
}

}  // namespace verbena::http
