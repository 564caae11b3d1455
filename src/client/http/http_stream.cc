#include "client/http/http_stream.h"

#include <openssl/x509v3.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <vector>

namespace verbena::client {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

bool TimedSocket::is_late(error_code& ec) const {
  if (SteadyClock::now() < until) return false;
  ec = asio::error::timed_out;
  return true;
}

bool TimedSocket::wait(short events, error_code& ec) {
  const int64_t slice_ms = stop.stop_possible() ? 20 : INT_MAX;
  for (auto left = until - SteadyClock::now(); waits && left.count() > 0; left = until - SteadyClock::now()) {
    if (stopped(ec)) return false;
    const auto ms = std::min<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), slice_ms);
    pollfd entry{socket_.native_handle(), events, 0};
    const int n = ::poll(&entry, 1, static_cast<int>(ms));
    if (n > 0) return true;  // errors show at the next read or write
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
  if (ec == asio::error::timed_out) return {Errc::timed_out, 0, "http client: no answer in time"};
  if (ec == asio::error::operation_aborted) return {Errc::cancelled, 0, "http client: cancelled by the caller"};
  if (ec == asio::error::eof) return {Errc::closed, 0, "http client: closed by the server"};
  if (ec == asio::ssl::error::stream_truncated) return {Errc::closed, 0, "http client: cut off by the server"};
  const bool system = ec.category() == boost::system::system_category();
  return {Errc::connection_failed, system ? ec.value() : 0,
          system ? "http client: connection" : "http client: TLS failed"};
}

Result<std::unique_ptr<asio::ssl::context>> make_client_tls(const std::string& ca_file, bool insecure) {
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  error_code ec;
  context->set_verify_mode(insecure ? asio::ssl::verify_none : asio::ssl::verify_peer, ec);
  if (insecure) return context;
  if (ca_file.empty()) {
    context->set_default_verify_paths(ec);
  } else {
    context->load_verify_file(ca_file, ec);
  }
  if (ec) return fail(Errc::bad_config, "http client: cannot load the CA certificates");
  return context;
}

namespace {

std::vector<Tcp::endpoint> endpoints_of(asio::io_context& io, const std::string& host, uint16_t port) {
  error_code ec;
  if (const auto address = asio::ip::make_address(host, ec); !ec) return {{address, port}};
  Tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port),
                                      Tcp::resolver::address_configured | Tcp::resolver::numeric_service, ec);
  return {found.begin(), found.end()};
}

}  // namespace

Result<std::unique_ptr<HttpStream>> HttpStream::connect(asio::io_context& io, const std::string& host, uint16_t port,
                                                        asio::ssl::context* tls, bool verify_name, Deadline deadline,
                                                        std::stop_token stop) {
  std::unique_ptr<HttpStream> stream(new HttpStream(io));
  stream->stop_with(std::move(stop));
  stream->socket_.until = deadline;
  Error last{Errc::connection_failed, 0, "http client: cannot resolve the host name"};
  for (const Tcp::endpoint& endpoint : endpoints_of(io, host, port)) {
    error_code ec;
    stream->socket_.connect(endpoint, ec);
    if (ec) {
      last = stream_error(ec);
      continue;
    }
    if (tls != nullptr) VB_TRY(stream->handshake(*tls, host, verify_name));
    return stream;
  }
  return std::unexpected(last);
}

Result<void> HttpStream::handshake(asio::ssl::context& tls, const std::string& host, bool verify_name) {
  tls_ = std::make_unique<asio::ssl::stream<TimedSocket&>>(socket_, tls);
  SSL* const ssl = tls_->native_handle();
  error_code ec;
  asio::ip::make_address(host, ec);
  if (!ec) {
    if (verify_name) X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl, host.c_str());
    if (verify_name) SSL_set1_host(ssl, host.c_str());
  }
  tls_->handshake(asio::ssl::stream_base::client, ec);
  if (!ec) return {};
  if (SSL_get_verify_result(ssl) != X509_V_OK) {
    return fail(Errc::connection_failed, "http client: the server's certificate was not accepted");
  }
  return std::unexpected(stream_error(ec));
}

HttpStream::~HttpStream() {
  if (!tls_) return;
  socket_.until = Deadline();
  error_code gone;
  tls_->shutdown(gone);  // says that this end is over, and does not wait for the peer to say so
}

std::string HttpStream::peer_address() {
  error_code ec;
  const auto endpoint = socket_.lowest_layer().remote_endpoint(ec);
  return ec ? std::string() : endpoint.address().to_string();
}

std::string HttpStream::local_address() {
  error_code ec;
  const auto endpoint = socket_.lowest_layer().local_endpoint(ec);
  return ec ? std::string() : endpoint.address().to_string();
}

}  // namespace verbena::client
