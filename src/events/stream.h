// A connection to a target, with or without TLS: to an address that was looked at, and with a deadline for all of what
// is done with it. Blocks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "events/target_settings.h"
#include "net/stream.h"

namespace verbena::events {

class Stream {
 public:
  Stream(boost::asio::ssl::context tls, TargetSettings settings)
      : tls_(std::move(tls)), settings_(std::move(settings)) {}

  bool is_open() const { return stream_ != nullptr; }
  // To the settings' host, without TLS yet. By the settings' timeout, as all that follows until the next begin().
  Result<void> connect();
  // Checks the certificate, and that it is this host's.
  Result<void> start_tls();
  // From here on there is the settings' timeout again.
  void begin() { stream_->limit(settings_.timeout, deadline_in(settings_.timeout)); }
  Result<void> write(std::string_view text);
  // Without its end (CRLF). invalid_request: longer than `most`.
  Result<std::string> read_line(size_t most);
  Result<std::string> read_bytes(size_t size);
  void close();
  // Ends what waits. Any thread.
  void cut() { cut_ = true; }

 private:
  Result<void> receive(size_t most);
  std::string take(size_t size, size_t with_end);

  boost::asio::io_context io_{1};
  boost::asio::ssl::context tls_;
  const TargetSettings settings_;
  std::unique_ptr<net::Stream> stream_;
  std::string in_;  // what was read and not yet asked for
  std::atomic<bool> cut_{false};
};

}  // namespace verbena::events
