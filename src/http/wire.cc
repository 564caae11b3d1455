#include "http/wire.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>

#include "base/metrics.h"
#include "base/socket_events.h"

namespace verbena::http {
namespace {

namespace asio = boost::asio;
constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);
constexpr size_t tls_record_bytes = 16 * KiB;
// Copied into the socket before other work runs: some hundred microseconds.
constexpr size_t bytes_of_a_turn = 1 * MiB;

metrics::Counter& too_slow_counter() {
  static auto& counter = metrics::counter("verbena_http_too_slow_total", "Transfers cut because their client was slow");
  return counter;
}

// The result of reads on a cancelled connection.
Task<Wire::Read> no_read() { co_return Wire::Read{asio::error::operation_aborted, 0}; }

}  // namespace

Wire::Wire(tcp::socket socket, asio::ssl::context* tls) : socket_(std::move(socket)), waiter_(socket_.get_executor()) {
  if (tls == nullptr) return;
  tls_ = std::make_unique<TlsStream>(socket_, *tls);
  watch_records(tls_->native_handle(), tls_records_);
}

std::vector<std::string> Wire::peer_certificates() const {
  return tls_ == nullptr ? std::vector<std::string>() : peer_certificates_of(tls_->native_handle());
}

Task<Result<void>> Wire::handshake(std::chrono::nanoseconds timeout) {
  deadline_ = deadline_in(timeout);
  auto [ec] = co_await tls_->async_handshake(asio::ssl::stream_base::server, use_tuple);
  deadline_ = Deadline::max();
  note_socket_event(socket_events_per_look);  // about a millisecond of work
  if (timed_out_) co_return fail(Errc::timed_out, "TLS handshake");
  if (ec) co_return fail(Errc::closed, "TLS handshake");
  co_return Result<void>{};
}

Task<Result<size_t>> Wire::read_some(MutableBytes into, std::chrono::nanoseconds timeout) {
  const Read read = co_await start_read(into, timeout);
  co_return end_read(read);
}

Task<Wire::Read> Wire::start_read(MutableBytes into, std::chrono::nanoseconds timeout) {
  timed_out_ = false;  // a timed-out wait fails alone: the rest of the stream is still read
  if (cancelled_) return no_read();
  deadline_ = deadline_in(timeout);
  const auto buffer = asio::buffer(into.data(), into.size());
  if (!tls_) return socket_.async_read_some(buffer, use_tuple);
  tls_records_.count = 0;
  return tls_->async_read_some(buffer, use_tuple);
}

Result<size_t> Wire::end_read(const Read& read) {
  const auto& [ec, n] = read;
  deadline_ = Deadline::max();
  moved_ += n;
  note_socket_event();
  if (!ec || n != 0) return n;
  if (timed_out_) return fail(Errc::timed_out, "connection timed out");
  if (cancelled_) return fail(Errc::cancelled, "connection is closing");
  // A peer that closes TCP without TLS's close_notify ends the stream, too: lengths show whether a body was cut.
  if (ec == asio::error::eof || ec == asio::ssl::error::stream_truncated) return size_t{0};
  return fail(Errc::closed, "connection: read", ec.value());
}

Task<Result<void>> Wire::send(memory::Chunk chunk, std::chrono::nanoseconds timeout) {
  const Bytes bytes = chunk.bytes;
  if (!bytes.empty()) queue_.push_back(Out{std::move(chunk), bytes});
  return wait_until(1, timeout);
}

Result<bool> Wire::send_at_once(memory::Chunk&& chunk, std::chrono::nanoseconds timeout) {
  const Bytes bytes = chunk.bytes;
  if (!bytes.empty()) queue_.push_back(Out{std::move(chunk), bytes});
  write_timeout_ = timeout;
  start();
  if (error_) return std::unexpected(*error_);
  return idle() && !writing_;
}

Task<Result<void>> Wire::flush(std::chrono::nanoseconds timeout) { return wait_until(0, timeout); }

Task<Result<void>> Wire::wait_until(size_t queued_max, std::chrono::nanoseconds timeout) {
  write_timeout_ = timeout;
  start();
  // With queued_max 0 all bytes must be sent, and OpenSSL must hold no pointer into memory that is released next.
  while (!error_ ? (queued_max == 0 ? !idle() || writing_ : queue_.size() > queued_max) : (tls_ && writing_)) {
    waiter_.expires_at(Deadline::max());
    co_await waiter_.async_wait(use_tuple);
  }
  if (error_) co_return std::unexpected(*error_);
  co_return Result<void>{};
}

void Wire::start() {
  if (writing_ || error_ || idle()) return;
  if (cancelled_) return fail_with(Errc::cancelled, 0);
  if (tls_) return start_tls();
  if (write_plain() || error_) return;
  auto owner = owner_.lock();
  writing_ = true;
  deadline_ = deadline_in(write_timeout_);
  socket_.async_wait(tcp::socket::wait_write, [this, owner](const boost::system::error_code& ec) { on_ready(ec); });
}

void Wire::on_ready(const boost::system::error_code& ec) {
  writing_ = false;
  deadline_ = Deadline::max();
  if (ec) {
    fail_with(timed_out_ ? Errc::timed_out : Errc::closed, ec.value());
  } else {
    start();
  }
  wake();
}

bool Wire::write_plain() {
  size_t left = bytes_of_a_turn;
  while (!idle()) {
    if (left == 0) return false;
    std::array<iovec, 4> parts;
    size_t count = 0, room = left;  // heads are small
    if (head_sent_ < head_.size()) {
      parts[count++] = {head_.data() + head_sent_, head_.size() - head_sent_};
    }
    for (const auto& out : queue_) {
      if (count == parts.size() || room == 0) break;
      const size_t part = std::min(room, out.rest.size());
      parts[count++] = {const_cast<std::byte*>(out.rest.data()), part};
      room -= part;
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t n = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      advance(static_cast<size_t>(n));
      left -= std::min(left, static_cast<size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      fail_with(Errc::closed, errno);
      return true;
    }
  }
  return true;
}

// One write at a time: OpenSSL's stream requires it. Small pieces (a head and a small object) share one record.
void Wire::start_tls() {
  const size_t head_left = head_.size() - head_sent_;
  asio::const_buffer next;
  if (head_left == 0 && queue_.front().rest.size() >= tls_record_bytes) {
    next = asio::const_buffer(queue_.front().rest.data(), queue_.front().rest.size());
  } else {
    flat_.assign(head_, head_sent_, head_left);
    for (const auto& out : queue_) {
      if (flat_.size() >= tls_record_bytes) break;
      flat_ += as_text(out.rest.first(std::min(out.rest.size(), tls_record_bytes - flat_.size())));
    }
    next = asio::const_buffer(flat_.data(), flat_.size());
  }
  auto owner = owner_.lock();
  writing_ = true;
  deadline_ = deadline_in(write_timeout_);
  tls_->async_write_some(next, [this, owner](const boost::system::error_code& ec, size_t n) { on_tls_written(ec, n); });
}

void Wire::on_tls_written(const boost::system::error_code& ec, size_t n) {
  writing_ = false;
  deadline_ = Deadline::max();
  advance(n);
  if (ec) {
    fail_with(timed_out_ ? Errc::timed_out : Errc::closed, ec.value());
  } else {
    start();
  }
  wake();
}

void Wire::advance(size_t n) {
  moved_ += n;
  const size_t head_part = std::min(n, head_.size() - head_sent_);
  head_sent_ += head_part;
  n -= head_part;
  if (head_sent_ == head_.size()) {
    head_.clear();
    head_sent_ = 0;
  }
  while (n != 0 && !queue_.empty()) {
    auto& front = queue_.front();
    const size_t part = std::min(n, front.rest.size());
    front.rest = front.rest.subspan(part);
    n -= part;
    if (front.rest.empty()) queue_.pop_front();
  }
}

void Wire::fail_with(Errc code, int sys) {
  if (!error_) error_ = Error{code, sys, "connection: write"};
  queue_.clear();
  head_.clear();
  head_sent_ = 0;
}

void Wire::wake() { waiter_.cancel(); }

void Wire::sweep(Deadline now) {
  const auto since = now - swept_at_;
  swept_at_ = now;
  if (deadline_ == Deadline::max()) return;  // no wait for the peer
  if (now >= deadline_ || too_slow(since)) time_out();
}

// A sweep that finds the wire waiting counts all the time since the last one: accurate enough for windows of many
// sweeps.
bool Wire::too_slow(std::chrono::nanoseconds since_last_sweep) {
  if (rate_min_ == 0) return false;
  waited_ += std::min<std::chrono::nanoseconds>(since_last_sweep, std::chrono::seconds(1));
  if (waited_ < rate_window_) return false;
  const double window_s = std::chrono::duration<double>(rate_window_).count();
  const bool slow = static_cast<double>(moved_) < static_cast<double>(rate_min_) * window_s;
  if (slow) too_slow_counter().add();
  start_window();
  return slow;
}

void Wire::time_out() {
  // Not cancelled_: after a stalled body an answer is still to be sent, and further bytes of the client are to be read,
  // since a close with unread bytes would reset the connection and lose the answer.
  timed_out_ = true;
  deadline_ = Deadline::max();
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

void Wire::cancel() {
  cancelled_ = true;
  deadline_ = Deadline::max();
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

void Wire::shutdown_send() {
  boost::system::error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

void Wire::close() {
  cancelled_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace verbena::http
