#include "client/http_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace verbena::client {
namespace {

// A BIO over a socket that sends with MSG_NOSIGNAL: OpenSSL's own would raise SIGPIPE in the user's program.
int bio_fd(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

int bio_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t n = ::send(bio_fd(bio), data, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

int bio_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t n = ::recv(bio_fd(bio), data, static_cast<size_t>(size), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(n);
}

long bio_ctrl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

int bio_create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

BIO_METHOD* socket_bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "verbena socket");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_ctrl);
    BIO_meth_set_create(made, bio_create);
    return made;
  }();
  return method;
}

bool is_ip_literal(const std::string& host) {
  unsigned char raw[16];
  return ::inet_pton(AF_INET, host.c_str(), raw) == 1 || ::inet_pton(AF_INET6, host.c_str(), raw) == 1;
}

std::string numeric_address(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST] = {};
  if (::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text;
}

}  // namespace

Result<SslContext> make_client_tls(const std::string& ca_file, bool insecure) {
  SslContext context(SSL_CTX_new(TLS_client_method()));
  if (!context) return fail(Errc::out_of_memory, "http client: TLS context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (insecure) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
    return context;
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const int loaded = ca_file.empty() ? SSL_CTX_set_default_verify_paths(context.get())
                                     : SSL_CTX_load_verify_locations(context.get(), ca_file.c_str(), nullptr);
  ERR_clear_error();
  if (loaded != 1) return fail(Errc::bad_config, "http client: cannot load the CA certificates");
  return context;
}

Result<std::unique_ptr<HttpSocket>> HttpSocket::connect(const std::string& host, uint16_t port, SSL_CTX* tls,
                                                        bool verify_name, Deadline deadline) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (is_ip_literal(host)) hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0 || found == nullptr) {
    return fail(Errc::connection_failed, "http client: cannot resolve the host name");
  }
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);

  Error last{Errc::connection_failed, 0, "http client: connect"};
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) {
      last.sys = errno;
      continue;
    }
    std::unique_ptr<HttpSocket> socket(new HttpSocket(fd));
    const int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (::connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
      if (errno != EINPROGRESS) {
        last.sys = errno;
        continue;
      }
      if (auto ready = socket->wait(POLLOUT, deadline); !ready) {
        last = ready.error();
        continue;
      }
      int problem = 0;
      socklen_t size = sizeof problem;
      ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size);
      if (problem != 0) {
        last = {Errc::connection_failed, problem, "http client: connect"};
        continue;
      }
    }
    socket->peer_address_ = numeric_address(a->ai_addr, a->ai_addrlen);
    if (tls != nullptr) VB_TRY(socket->handshake(tls, host, verify_name, deadline));
    return socket;
  }
  return std::unexpected(last);
}

std::string HttpSocket::local_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return numeric_address(reinterpret_cast<const sockaddr*>(&address), size);
}

HttpSocket::~HttpSocket() {
  if (ssl_) {
    SSL_shutdown(ssl_.get());  // one try; the peer may be gone
    ERR_clear_error();
  }
  ::close(fd_);
}

Result<void> HttpSocket::wait(short events, Deadline deadline) const {
  const int64_t slice_ms = stop_.stop_possible() ? 20 : INT_MAX;
  for (;;) {
    if (stop_.stop_requested()) return fail(Errc::cancelled, "http client: the caller's wish");
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    if (left <= 0) return fail(Errc::timed_out, "http client: no answer in time");
    pollfd entry{fd_, events, 0};
    const int n = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, slice_ms)));
    if (n > 0) return {};  // errors show at the next read or write
    if (n < 0 && errno != EINTR) return fail(Errc::connection_failed, "http client: poll", errno);
  }
}

Result<void> HttpSocket::handshake(SSL_CTX* tls, const std::string& host, bool verify_name, Deadline deadline) {
  ssl_.reset(SSL_new(tls));
  BIO* bio = BIO_new(socket_bio_method());
  if (!ssl_ || bio == nullptr) return fail(Errc::out_of_memory, "http client: TLS");
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd_)));
  SSL_set_bio(ssl_.get(), bio, bio);
  if (is_ip_literal(host)) {
    if (verify_name) X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl_.get(), host.c_str());
    if (verify_name) SSL_set1_host(ssl_.get(), host.c_str());
  }
  for (;;) {
    ERR_clear_error();
    const int result = SSL_connect(ssl_.get());
    if (result == 1) return {};
    if (SSL_get_verify_result(ssl_.get()) != X509_V_OK && SSL_get_error(ssl_.get(), result) == SSL_ERROR_SSL) {
      ERR_clear_error();
      return fail(Errc::connection_failed, "http client: the server's certificate was not accepted");
    }
    VB_TRY(wait_tls(result, deadline));
  }
}

Result<void> HttpSocket::wait_tls(int ssl_result, Deadline deadline) {
  switch (SSL_get_error(ssl_.get(), ssl_result)) {
    case SSL_ERROR_WANT_READ:
      return wait(POLLIN, deadline);
    case SSL_ERROR_WANT_WRITE:
      return wait(POLLOUT, deadline);
    case SSL_ERROR_ZERO_RETURN:
      return fail(Errc::closed, "http client: closed by the server");
    default:
      break;
  }
  ERR_clear_error();
  return fail(Errc::connection_failed, "http client: TLS failed");
}

Result<size_t> HttpSocket::read_some(MutableBytes into, Deadline deadline) {
  const size_t want = std::min<size_t>(into.size(), INT_MAX);
  for (;;) {
    if (ssl_) {
      ERR_clear_error();
      const int n = SSL_read(ssl_.get(), into.data(), static_cast<int>(want));
      if (n > 0) return static_cast<size_t>(n);
      VB_TRY(wait_tls(n, deadline));
      continue;
    }
    const ssize_t n = ::recv(fd_, into.data(), want, 0);
    if (n > 0) return static_cast<size_t>(n);
    if (n == 0) return fail(Errc::closed, "http client: closed by the server");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail(Errc::connection_failed, "http client: recv", errno);
    VB_TRY(wait(POLLIN, deadline));
  }
}

Result<size_t> HttpSocket::write_some(Bytes from, Deadline deadline) {
  const size_t want = std::min<size_t>(from.size(), INT_MAX);
  for (;;) {
    if (ssl_) {
      ERR_clear_error();
      const int n = SSL_write(ssl_.get(), from.data(), static_cast<int>(want));
      if (n > 0) return static_cast<size_t>(n);
      VB_TRY(wait_tls(n, deadline));
      continue;
    }
    const ssize_t n = ::send(fd_, from.data(), want, MSG_NOSIGNAL);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail(Errc::connection_failed, "http client: send", errno);
    VB_TRY(wait(POLLOUT, deadline));
  }
}

bool HttpSocket::readable_now() const {
  pollfd entry{fd_, POLLIN | POLLRDHUP, 0};
  if (!ssl_) return ::poll(&entry, 1, 0) != 0;
  if (SSL_pending(ssl_.get()) == 0 && ::poll(&entry, 1, 0) == 0) return false;
  // What came may be TLS's own (session tickets): only the peer's data, its end or an error counts.
  ERR_clear_error();
  char byte = 0;
  const int n = SSL_peek(ssl_.get(), &byte, 1);
  if (n > 0) return true;
  const int problem = SSL_get_error(ssl_.get(), n);
  ERR_clear_error();
  return problem != SSL_ERROR_WANT_READ && problem != SSL_ERROR_WANT_WRITE;
}

}  // namespace verbena::client
