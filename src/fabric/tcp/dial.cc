// Connecting and mutual authentication by the session's key.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "fabric/tcp/handshake.h"
#include "fabric/tcp/link.h"
#include "fabric/tcp/socket_address.h"

namespace verbena::fabric::tcp {
namespace {

Result<void> wait_for(int socket, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    if (left <= 0) return fail(Errc::timed_out, "tcp: connect");
    pollfd fd{socket, events, 0};
    const int ready = ::poll(&fd, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(Errc::io_error, "tcp: poll", errno);
  }
}

Result<Fd> connect_socket(const SocketAddress& address, Deadline deadline) {
  Fd socket(::socket(address.raw.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail(Errc::io_error, "tcp: socket", errno);
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(socket.get(), address.get(), address.size) != 0) {
    if (errno != EINPROGRESS) return fail(Errc::connection_failed, "tcp: connect", errno);
    VB_TRY(wait_for(socket.get(), POLLOUT, deadline));
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return fail(Errc::connection_failed, "tcp: connect", error);
  }
  return socket;
}

// A new connection's buffer takes these few bytes without waiting.
Result<void> send_all(int socket, Bytes bytes) {
  const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(bytes.size())) return {};
  return fail(Errc::closed, "tcp: send", sent < 0 ? errno : 0);
}

Result<void> receive_all(int socket, MutableBytes into, Deadline deadline) {
  while (!into.empty()) {
    VB_TRY(wait_for(socket, POLLIN, deadline));
    const ssize_t got = ::recv(socket, into.data(), into.size(), MSG_DONTWAIT);
    if (got == 0) return fail(Errc::closed, "tcp: the server did not let us in");
    if (got < 0 && errno != EAGAIN && errno != EINTR) return fail(Errc::closed, "tcp: receive", errno);
    into = into.subspan(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  }
  return {};
}

Result<Handshake> shake_hands(int socket, const Dial& dial, Deadline deadline) {
  const Hello hello = make_hello(dial.session, dial.encrypt);
  VB_TRY(send_all(socket, hello));
  Challenge challenge;
  VB_TRY(receive_all(socket, challenge, deadline));
  Handshake handshake(dial.key, hello, Bytes(challenge).first(random_size));
  if (!equal_constant_time(challenge, handshake.challenge())) {
    return fail(Errc::access_denied, "tcp: the peer does not have the session's key");
  }
  VB_TRY(send_all(socket, handshake.proof()));
  return handshake;
}

Result<void> start_tls(Stream& stream, const Handshake& handshake, Deadline deadline) {
  VB_TRY(stream.start_tls(Side::client, handshake.tls_key()));
  for (;;) {
    VB_ASSIGN(const HandshakeState state, stream.handshake());
    if (state == HandshakeState::complete) return {};
    VB_TRY(wait_for(stream.fd(), POLLIN, deadline));
  }
}

}  // namespace

Result<std::unique_ptr<Link>> connect(const Dial& dial) {
  const Deadline deadline = deadline_in(dial.timeout);
  VB_ASSIGN(SocketAddress address, parse_socket_address(dial.address));
  if (address.is_any()) {
    const uint16_t port = address.port();
    VB_ASSIGN(address, make_socket_address(dial.host, port));
  }
  VB_ASSIGN(Fd socket, connect_socket(address, deadline));
  VB_ASSIGN(const Handshake handshake, shake_hands(socket.get(), dial, deadline));
  Stream stream(std::move(socket));
  if (dial.encrypt) VB_TRY(start_tls(stream, handshake, deadline));
  auto link = std::make_unique<TcpLink>(std::move(stream), dial.message_size_max);
  VB_TRY(link->open());
  return std::unique_ptr<Link>(std::move(link));
}

}  // namespace verbena::fabric::tcp
