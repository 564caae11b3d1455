// One connection's bytes: TCP, with or without TLS. Internal to http/.
//
// Reads and writes have a time-out, stored as a deadline that the listener's sweep checks: a timer per read would cost
// more than the read. All on one core's thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/task.h"
#include "http/tls.h"
#include "memory/arena.h"

namespace verbena::http {

class Wire {
 public:
  using tcp = boost::asio::ip::tcp;
  using TlsStream = boost::asio::ssl::stream<tcp::socket&>;

  Wire(tcp::socket socket, boost::asio::ssl::context* tls);
  Wire(const Wire&) = delete;

  // The object that keeps this wire alive while the kernel or OpenSSL works for it. Set once, before any use.
  void set_owner(std::weak_ptr<void> owner) { owner_ = std::move(owner); }
  bool secure() const { return tls_ != nullptr; }
  std::vector<std::string> peer_certificates() const;
  tcp::socket& socket() { return socket_; }

  Task<Result<void>> handshake(std::chrono::nanoseconds timeout);

  // At least one byte, or 0 at the end of the stream. timed_out, closed.
  Task<Result<size_t>> read_some(MutableBytes into, std::chrono::nanoseconds timeout);
  // The same in two halves, without a coroutine: the result of start_read() is awaited and passed to end_read().
  using Read = std::tuple<boost::system::error_code, size_t>;
  Task<Read> start_read(MutableBytes into, std::chrono::nanoseconds timeout);
  Result<size_t> end_read(const Read& read);

  // Bytes to be sent before the next chunk, in the same write if possible. Append, then send() or flush().
  std::string& head() { return head_; }
  // Takes the chunk; returns once at most one is still waiting to be sent. `timeout`: for each progress.
  Task<Result<void>> send(memory::Chunk chunk, std::chrono::nanoseconds timeout);
  // The same without waiting; an empty chunk is skipped. True: everything is sent. False: flush() returns when it is.
  Result<bool> send_at_once(memory::Chunk&& chunk, std::chrono::nanoseconds timeout);
  // Returns when everything is sent (given to the kernel), or the connection has failed.
  Task<Result<void>> flush(std::chrono::nanoseconds timeout);

  // Requires the peer to move `rate_min` bytes per second (0: none) on average over each `window` of waiting for it;
  // time in which the server itself is busy does not count.
  void hold_to_rate(uint64_t rate_min, std::chrono::nanoseconds window) {
    rate_min_ = rate_min;
    rate_window_ = window;
    start_window();
  }
  // The deadline of the current wait; max(): no wait.
  Deadline deadline() const { return deadline_; }
  // Ends the current wait if the deadline has passed or the peer is too slow. For the listener's sweep.
  void sweep(Deadline now);
  // Fails every wait from now on.
  void cancel();
  void shutdown_send();
  void close();

 private:
  struct Out {
    memory::Chunk chunk;
    Bytes rest;
  };
  void start_window() {
    waited_ = {};
    moved_ = 0;
  }
  bool too_slow(std::chrono::nanoseconds since_last_sweep);
  void time_out();
  bool idle() const { return head_sent_ == head_.size() && queue_.empty(); }
  void start();  // sends what is possible now, and schedules the rest
  void start_tls();
  void on_ready(const boost::system::error_code& ec);
  void on_tls_written(const boost::system::error_code& ec, size_t n);
  bool write_plain();  // false: the kernel accepts no more for now, or other work runs first
  void advance(size_t n);
  void fail_with(Errc code, int sys);
  void wake();
  Task<Result<void>> wait_until(size_t queued_max, std::chrono::nanoseconds timeout);

  tcp::socket socket_;
  std::unique_ptr<TlsStream> tls_;
  TlsRecords tls_records_;
  std::weak_ptr<void> owner_;
  boost::asio::steady_timer waiter_;  // fires when cancelled: the queue has moved
  Deadline deadline_ = Deadline::max();
  std::chrono::nanoseconds write_timeout_{};
  uint64_t rate_min_ = 0;
  std::chrono::nanoseconds rate_window_{};
  std::chrono::nanoseconds waited_{};  // wait for the peer in this window, by the sweeps
  uint64_t moved_ = 0;                 // bytes in this window
  Deadline swept_at_{};
  std::string head_;
  size_t head_sent_ = 0;
  std::deque<Out> queue_;
  std::string flat_;      // TLS: small pieces joined into one record
  bool writing_ = false;  // an asynchronous write or wait is in progress
  bool cancelled_ = false;
  bool timed_out_ = false;      // of the current wait, or the last one
  std::optional<Error> error_;  // of writing; it stays
};

}  // namespace verbena::http
