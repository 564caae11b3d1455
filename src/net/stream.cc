#include "net/stream.h"

#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "net/tls.h"

namespace verbena::net {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

namespace {

timespec timespec_of(std::chrono::nanoseconds time) {
  constexpr int64_t second = 1'000'000'000;
  return {.tv_sec = time.count() / second, .tv_nsec = time.count() % second};
}

}  // namespace

bool TimedSocket::is_late(error_code& ec) const {
  if (SteadyClock::now() < until) return false;
  ec = asio::error::timed_out;
  return true;
}

bool TimedSocket::wait(short events, error_code& ec) {
  using std::chrono::nanoseconds;
  const nanoseconds slice = stop.possible() ? std::chrono::milliseconds(20) : std::chrono::hours(24);
  for (nanoseconds left = until - SteadyClock::now(); waits && left.count() > 0; left = until - SteadyClock::now()) {
    if (stopped(ec)) return false;
    const Meanwhile::Sleep also = meanwhile == nullptr ? Meanwhile::Sleep{-1, slice} : meanwhile->run();
    pollfd entries[2] = {{socket_.native_handle(), events, 0}, {also.fd, POLLIN, 0}};
    const timespec time = timespec_of(std::min({left, slice, also.at_most}));
    const int n = ::ppoll(entries, also.fd < 0 ? 1 : 2, &time, nullptr);
    if (entries[0].revents != 0) return true;  // errors show at the next read or write
    if (n < 0 && errno != EINTR) return ec.assign(errno, boost::system::system_category()), false;
  }
  ec = asio::error::timed_out;
  return false;
}

void TimedSocket::connect(const Tcp::endpoint& to, error_code& ec) {
  socket_.close(ec);
  socket_.open(to.protocol(), ec);
  if (!ec) socket_.non_blocking(true, ec);
  if (!ec) socket_.set_option(Tcp::no_delay(true), ec);
  if (ec) return;
  // The socket's own connect() would wait without a bound.
  if (::connect(socket_.native_handle(), to.data(), static_cast<socklen_t>(to.size())) == 0) return;
  ec.assign(errno, boost::system::system_category());
  if (ec != asio::error::in_progress || !wait(POLLOUT, ec)) return;
  int problem = 0;
  socklen_t size = sizeof problem;
  ::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_ERROR, &problem, &size);
  ec.assign(problem, boost::system::system_category());
}

Error stream_error(const error_code& ec) {
  if (ec == asio::error::timed_out) return {Errc::timed_out, 0, "connection: no answer in time"};
  if (ec == asio::error::operation_aborted) return {Errc::cancelled, 0, "connection: cancelled by the caller"};
  if (ec == asio::error::eof) return {Errc::closed, 0, "connection: closed by the server"};
  if (ec == asio::ssl::error::stream_truncated) return {Errc::closed, 0, "connection: cut off by the server"};
  const bool system = ec.category() == boost::system::system_category();
  return {Errc::connection_failed, system ? ec.value() : 0, system ? "connection: refused or broken" : "TLS failed"};
}

Result<std::unique_ptr<Stream>> Stream::connect(asio::io_context& io, const TcpEndpoints& addresses, Deadline until,
                                                Stop stop) {
  std::unique_ptr<Stream> stream(new Stream(io));
  stream->stop_with(std::move(stop));
  stream->socket_.until = stream->whole_ = until;
  Error last{Errc::connection_failed, 0, "connection: the host's name is not known"};
  for (const Tcp::endpoint& endpoint : addresses) {
    error_code ec;
    stream->socket_.connect(endpoint, ec);
    if (!ec) return stream;
    last = stream_error(ec);
  }
  return std::unexpected(last);
}

Result<void> Stream::start_tls(asio::ssl::context& tls, const std::string& host, bool check_name) {
  tls_ = std::make_unique<asio::ssl::stream<TimedSocket&>>(socket_, tls);
  SSL* const ssl = tls_->native_handle();
  if (!check_name) {
    ask_for_peer(ssl, host);
  } else if (!name_peer(ssl, host)) {
    return fail(Errc::connection_failed, "TLS: no certificate can have the host's name");
  }
  socket_.until = whole_;
  error_code ec;
  tls_->handshake(asio::ssl::stream_base::client, ec);
  if (!ec) return {};
  if (SSL_get_verify_result(ssl) != X509_V_OK) {
    return fail(Errc::connection_failed, "TLS: the server's certificate was not accepted");
  }
  return std::unexpected(stream_error(ec));
}

bool Stream::has_received() const {
  if (!tls_) return false;
  SSL* const ssl = tls_->native_handle();
  return SSL_has_pending(ssl) == 1 || BIO_pending(SSL_get_rbio(ssl)) > 0;
}

Stream::~Stream() {
  if (!tls_) return;
  socket_.until = Deadline();
  error_code gone;
  tls_->shutdown(gone);  // says that this end is over, and does not wait for the peer to say so
}

std::string Stream::peer_address() {
  error_code ec;
  const auto endpoint = socket_.lowest_layer().remote_endpoint(ec);
  return ec ? std::string() : endpoint.address().to_string();
}

std::string Stream::local_address() {
  error_code ec;
  const auto endpoint = socket_.lowest_layer().local_endpoint(ec);
  return ec ? std::string() : endpoint.address().to_string();
}

}  // namespace verbena::net
