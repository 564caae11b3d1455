// A connection to a target, with or without TLS: to an address that was looked at, and with a deadline for all of what
// is done with it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/task.h"
#include "events/target_settings.h"

namespace verbena::events {

class Stream {
 public:
  Stream(boost::asio::io_context& io, boost::asio::ssl::context tls, TargetSettings settings)
      : io_(io), tls_(std::move(tls)), settings_(std::move(settings)) {}

  bool is_open() const { return stream_.has_value(); }
  // To the settings' host, without TLS yet. By the settings' timeout, as all that follows until the next begin().
  Task<Result<void>> connect();
  // Checks the certificate, and that it is this host's.
  Task<Result<void>> start_tls();
  // From here on there is the settings' timeout again.
  void begin();
  Task<Result<void>> write(std::string_view text);
  // Without its end (CRLF). invalid_request: longer than `most`.
  Task<Result<std::string>> read_line(size_t most);
  Task<Result<std::string>> read_bytes(size_t size);
  void close();
  // Ends what waits: cancel() on the loop, cut() on any thread.
  void cancel();
  void cut() { cut_ = true; }

 private:
  using TlsStream = boost::beast::ssl_stream<boost::beast::tcp_stream>;

  boost::asio::io_context& io_;
  boost::asio::ssl::context tls_;
  const TargetSettings settings_;
  std::optional<TlsStream> stream_;
  bool encrypted_ = false;
  std::string in_;  // what was read and not yet asked for
  std::atomic<bool> cut_{false};
};

}  // namespace verbena::events
