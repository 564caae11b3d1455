// For tests and fuzzers: reads a whole source on a loop of its own.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <string>
#include <vector>

#include "base/bytes.h"
#include "memory/stream.h"

namespace verbena::http {

// Reads a whole source, `step` bytes at a time, into `out`; sets the error that ended it, else ok.
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
