// One TCP connection, plain or TLS, also as a stream for Boost.Beast: Boost.Asio's socket and TLS, and no call outlives
// its deadline, or its caller's wish to stop. Never raises SIGPIPE.
#pragma once

#include <poll.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "net/meanwhile.h"
#include "net/name_lookup.h"

namespace verbena::net {

using boost::system::error_code;

// A socket whose synchronous calls end with timed_out at `until`, and with operation_aborted within some 20 ms of a
// stop.
class TimedSocket {
 public:
  using lowest_layer_type = boost::asio::ip::tcp::socket;
  using executor_type = lowest_layer_type::executor_type;

  explicit TimedSocket(boost::asio::io_context& io) : socket_(io) {}
  lowest_layer_type& lowest_layer() { return socket_; }
  executor_type get_executor() { return socket_.get_executor(); }

  void connect(const boost::asio::ip::tcp::endpoint& to, error_code& ec);
  template <class Buffers>
  size_t read_some(const Buffers& into, error_code& ec) {
    size_t n = 0;
    if (stopped(ec) || is_late(ec)) return n;
    do n = socket_.read_some(into, ec);
    while (ec == boost::asio::error::would_block && wait(POLLIN, ec));
    return n;
  }
  template <class Buffers>
  size_t write_some(const Buffers& from, error_code& ec) {
    size_t n = 0;
    if (stopped(ec)) return n;
    do n = socket_.write_some(from, ec);
    while (ec == boost::asio::error::would_block && wait(POLLOUT, ec));
    return n;
  }

  Deadline until = Deadline::max();
  bool waits = true;  // false: timed_out is what would have to be waited for
  Stop stop;
  Meanwhile* meanwhile = nullptr;

 private:
  bool stopped(error_code& ec) const {
    if (!stop.requested()) return false;
    ec = boost::asio::error::operation_aborted;
    return true;
  }
  // A peer that says something all the time is never waited for, and late all the same.
  bool is_late(error_code& ec) const;
  bool wait(short events, error_code& ec);
  lowest_layer_type socket_;
};

class Stream {
 public:
  // To the first of the addresses that answers. What follows ends by the deadline, too, until limit() sets another.
  // timed_out, cancelled, connection_failed.
  static Result<std::unique_ptr<Stream>> connect(boost::asio::io_context& io, const TcpEndpoints& addresses,
                                                 Deadline until, Stop stop);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Goes on in TLS. `check_name`: the certificate must be `host`'s. timed_out, cancelled, connection_failed.
  Result<void> start_tls(boost::asio::ssl::context& tls, const std::string& host, bool check_name = true);
  bool is_encrypted() const { return tls_ != nullptr; }

  // For what follows: until `whole`, and no longer than `stall` without a byte in either direction. TLS's own messages
  // are none: a peer can say them for ever.
  void limit(std::chrono::milliseconds stall, Deadline whole) {
    stall_ = stall;
    whole_ = whole;
  }
  // A stop ends the call that waits, and later ones.
  void stop_with(Stop stop) { socket_.stop = std::move(stop); }
  // Runs whenever a call waits; null: nothing does. Outlives the calls.
  void run_meanwhile(Meanwhile* meanwhile) { socket_.meanwhile = meanwhile; }

  template <class Buffers>
  size_t read_some(const Buffers& into, error_code& ec) {
    begin();
    return tls_ ? tls_->read_some(into, ec) : socket_.read_some(into, ec);
  }
  template <class Buffers>
  size_t write_some(const Buffers& from, error_code& ec) {
    begin();
    return tls_ ? tls_->write_some(from, ec) : socket_.write_some(from, ec);
  }
  // Beast asks of a stream that it has these, too; nothing calls them.
  template <class Buffers>
  size_t read_some(const Buffers& into) {
    error_code ec;
    const size_t n = read_some(into, ec);
    return ec ? throw boost::system::system_error(ec) : n;
  }
  template <class Buffers>
  size_t write_some(const Buffers& from) {
    error_code ec;
    const size_t n = write_some(from, ec);
    return ec ? throw boost::system::system_error(ec) : n;
  }

  // What has come already, without waiting: timed_out when there is nothing (of the peer's: TLS's own messages do not
  // count).
  template <class Buffers>
  size_t read_now(const Buffers& into, error_code& ec) {
    socket_.until = deadline_in(std::chrono::milliseconds(100));
    socket_.waits = false;
    const size_t n = tls_ ? tls_->read_some(into, ec) : socket_.read_some(into, ec);
    socket_.waits = true;
    return n;
  }

  // Whether something was received that has not been read yet: it is invisible to poll() on the socket.
  bool has_received() const;
  int fd() { return socket_.lowest_layer().native_handle(); }

  // The peer's IP address as text, without port or brackets.
  std::string peer_address();
  // This end's IP address: what the server sees as its peer, unless an address is translated on the way.
  std::string local_address();

 private:
  explicit Stream(boost::asio::io_context& io) : socket_(io) {}

  // Each call has a time of its own.
  void begin() { socket_.until = stall_ ? std::min(whole_, deadline_in(*stall_)) : whole_; }

  std::optional<std::chrono::milliseconds> stall_;  // none before limit()
  Deadline whole_ = Deadline::max();
  TimedSocket socket_;
  std::unique_ptr<boost::asio::ssl::stream<TimedSocket&>> tls_;
};

// timed_out, closed (the peer's end of the stream), cancelled, or connection_failed.
Error stream_error(const error_code& ec);

}  // namespace verbena::net
