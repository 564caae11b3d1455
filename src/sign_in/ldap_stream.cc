#include "sign_in/ldap_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/name_lookup.h"
#include "sign_in/tls_peer.h"

namespace verbena::sign_in {
namespace {

constexpr size_t directory_addresses_max = 4;
constexpr std::chrono::milliseconds look_every{100};  // the interval of checks whether the server ends

// False with errno: past the deadline, or the server ends.
bool wait_on(int fd, short events, Deadline until, const std::atomic<bool>& stop) {
  for (;;) {
    const auto left = until - SteadyClock::now();
    if (stop.load() || left <= Deadline::duration::zero()) {
      errno = ETIMEDOUT;
      return false;
    }
    const auto slice = std::min<std::chrono::nanoseconds>(left, look_every);
    pollfd wanted{.fd = fd, .events = events, .revents = 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(slice).count() + 1;
    const int ready = ::poll(&wanted, 1, static_cast<int>(ms));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

Result<Fd> connect_to(const boost::asio::ip::tcp::endpoint& endpoint, Deadline until, const std::atomic<bool>& stop) {
  Fd fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail(Errc::connection_failed, "ldap: socket", errno);
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (::connect(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0) return fd;
  if (errno != EINPROGRESS) return fail(Errc::connection_failed, "ldap: connect", errno);
  if (!wait_on(fd.get(), POLLOUT, until, stop)) return fail(Errc::timed_out, "ldap: connect");
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail(Errc::connection_failed, "ldap: connect", error);
  return fd;
}

}  // namespace

Result<std::unique_ptr<LdapStream>> LdapStream::connect(const std::string& host, uint16_t port, Deadline until,
                                                        const std::atomic<bool>& stop) {
  VB_ASSIGN(const auto found, look_up_name(host, port, until, stop));
  Result<Fd> made = fail(Errc::connection_failed, "ldap: the host has no address");
  for (size_t i = 0; i < std::min(found.size(), directory_addresses_max); ++i) {
    made = connect_to(found[i], until, stop);
    if (made) return std::unique_ptr<LdapStream>(new LdapStream(std::move(*made), until, stop));
  }
  return std::unexpected(made.error());
}

LdapStream::~LdapStream() { SSL_free(ssl_); }

bool LdapStream::wait(short events) const { return wait_on(fd_.get(), events, until_, stop_); }

bool LdapStream::wait_for(int tls_result) const {
  switch (SSL_get_error(ssl_, tls_result)) {
    case SSL_ERROR_WANT_READ:
      return wait(POLLIN);
    case SSL_ERROR_WANT_WRITE:
      return wait(POLLOUT);
    default:
      errno = ECONNRESET;
      return false;
  }
}

Result<void> LdapStream::start_tls(SSL_CTX* context, const std::string& host) {
  ssl_ = SSL_new(context);
  if (ssl_ == nullptr || SSL_set_fd(ssl_, fd_.get()) != 1 || !name_peer(ssl_, host)) {
    return fail(Errc::internal, "ldap: TLS");
  }
  for (;;) {
    ERR_clear_error();  // SSL_get_error() also reads errors left on this thread by others
    const int done = SSL_connect(ssl_);
    if (done == 1) return {};
    if (wait_for(done)) continue;
    const bool late = errno == ETIMEDOUT;
    return late ? fail(Errc::timed_out, "ldap: TLS handshake")
                : fail(Errc::connection_failed, "ldap: TLS, or the directory's certificate is not trusted");
  }
}

ssize_t LdapStream::read(void* into, size_t size) {
  for (;;) {
    ERR_clear_error();
    const ssize_t n = ssl_ == nullptr ? ::recv(fd_.get(), into, size, 0)
                                      : SSL_read(ssl_, into, static_cast<int>(std::min<size_t>(size, INT32_MAX)));
    if (n > 0) {
      read_bytes_ += static_cast<size_t>(n);
      if (read_bytes_ <= read_bytes_max) return n;
      errno = EMSGSIZE;
      return -1;
    }
    if (ssl_ != nullptr) {
      if (SSL_get_error(ssl_, static_cast<int>(n)) == SSL_ERROR_ZERO_RETURN) return 0;
      if (!wait_for(static_cast<int>(n))) return -1;
      continue;
    }
    if (n == 0) return 0;
    if (errno == EINTR) continue;
    if (errno != EAGAIN || !wait(POLLIN)) return -1;
  }
}

ssize_t LdapStream::write(const void* from, size_t size) {
  for (;;) {
    ERR_clear_error();
    const ssize_t n = ssl_ == nullptr ? ::send(fd_.get(), from, size, MSG_NOSIGNAL)
                                      : SSL_write(ssl_, from, static_cast<int>(std::min<size_t>(size, INT32_MAX)));
    if (n > 0) return n;
    if (ssl_ != nullptr) {
      if (!wait_for(static_cast<int>(n))) return -1;
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && wait(POLLOUT)) continue;
    return -1;
  }
}

bool LdapStream::has_decrypted() const { return ssl_ != nullptr && SSL_has_pending(ssl_) == 1; }

}  // namespace verbena::sign_in
