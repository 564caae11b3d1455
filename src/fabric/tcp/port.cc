#include "fabric/tcp/port.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "fabric/tcp/counters.h"
#include "fabric/tcp/socket_address.h"
#include "fabric/tcp/window.h"

namespace verbena::fabric::tcp {
namespace {

constexpr uint64_t listener_id = 0;
constexpr int backlog = 256;
constexpr int accepts_per_turn = 64;
constexpr size_t hot_max = 4;  // more are polled together, by epoll
constexpr unsigned quiet_turns_max = 512;
constexpr unsigned turns_between_epolls = 4;
constexpr size_t all_messages_per_turn = 256;  // of all connections per turn
constexpr unsigned handshakes_per_turn = 2;    // steps of TLS handshakes, the most expensive operation of a connection
constexpr auto look_every = std::chrono::milliseconds(20);
constexpr auto session_look_every = std::chrono::seconds(5);

Result<void> watch(int epoll, int fd, uint64_t id, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return fail(Errc::io_error, "tcp: epoll_ctl", errno);
  return {};
}

}  // namespace

TcpPort::TcpPort(Core& core, const Options& options)
    : core_(core), shared_(std::make_shared<PortShared>()), epoll_(core.io()), arrivals_(options) {
  shared_->options = options;
  shared_->scratch.resize(FrameReader::scratch_size(options.message_size_max));
}

Result<void> TcpPort::open() {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail(Errc::io_error, "tcp: epoll", errno);
  VB_TRY(listen());
  VB_TRY(watch(epoll.get(), listener_.get(), listener_id, EPOLLIN | EPOLLET));
  boost::system::error_code error;
  epoll_.assign(epoll.get(), error);
  if (error) return fail(Errc::io_error, "tcp: epoll", error.value());
  epoll.release();
  core_.add(this);
  opened_ = true;
  return {};
}

Result<void> TcpPort::listen() {
  const Options& options = shared_->options;
  VB_ASSIGN(SocketAddress address, make_socket_address(options.bind_address, 0));
  const bool any = options.port_first == 0;
  for (uint32_t port = options.port_first; port <= std::max(options.port_first, options.port_last); ++port) {
    Fd socket(::socket(address.raw.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return fail(Errc::io_error, "tcp: socket", errno);
    // A restarted server can use its ports again at once. [::] means both families, another IPv6 address only itself.
    const int on = 1, v6_only = address.is_any() ? 0 : 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address.raw.ss_family == AF_INET6) {
      ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
    }
    address.set_port(static_cast<uint16_t>(port));
    if (::bind(socket.get(), address.get(), address.size) == 0 && ::listen(socket.get(), backlog) == 0) {
      VB_ASSIGN(const SocketAddress own, own_address(socket.get()));
      address_ = own.bytes();
      listener_ = std::move(socket);
      return {};
    }
    if (errno == EADDRINUSE && !any) continue;
    return fail(Errc::bad_config, "tcp: cannot listen", errno);
  }
  return fail(Errc::bad_config, "tcp: no free port in rdma.fabric_ports", EADDRINUSE);
}

TcpPort::~TcpPort() {
  if (opened_) core_.remove(this);
  for (auto& [id, connection] : peers_) connection->drop();
  shared_->on_message = nullptr;
  // Waiting coroutines are destroyed, not resumed: nothing may begin any more.
  for (Transfer* transfer : std::exchange(shared_->done, {})) {
    const auto waits = std::exchange(transfer->handler, std::nullopt);
  }
}

// --- Peers -----------------------------------------------------------------------------------------------------------

void TcpPort::accept_all() {
  accept_again_ = false;
  for (int taken = 0; taken < accepts_per_turn; ++taken) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    Fd socket(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      // Out of descriptors: the next check of the clock tries again.
      if (errno != EAGAIN) accept_again_ = true;
      return;
    }
    Counters::get().accepted.add();
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const uint64_t id = id_next_++;
    if (!watch(epoll_.native_handle(), socket.get(), id, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)) continue;
    arrivals_.add(std::move(socket), id, address);
    // Most have sent their hello by now. Processed before the next connections are accepted, they do not count as
    // silent.
    if (auto arrived = arrivals_.progress(id, find_key_)) welcome(std::move(*arrived));
  }
  accept_again_ = true;
}

void TcpPort::welcome(Arrivals::Welcome arrived) {
  // A session has one connection to a port: a second one can only come from a copy of the session.
  if (by_session_.contains(arrived.session)) return Counters::get().refused.add();
  auto connection = std::make_shared<Connection>(shared_, arrived.id, arrived.session, std::move(arrived.socket));
  if (encrypted()) {
    if (auto made = connection->start_tls(arrived.handshake->tls_key()); !made) {
      log::warn("tcp: {}", describe(made.error()));
      return;
    }
  }
  Counters::get().authenticated.add();
  by_session_.emplace(arrived.session, arrived.id);
  connection->be_timed();  // for its handshake
  heat(connection);
  peers_.emplace(arrived.id, std::move(connection));
}

Result<PeerId> TcpPort::add_peer(std::string_view) {
  return fail(Errc::unsupported, "tcp: clients dial, the server does not");
}

bool TcpPort::admit(PeerId id, uint64_t session) {
  const auto found = peers_.find(id);
  return found != peers_.end() && found->second->session() == session;
}

void TcpPort::remove_peer(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  found->second->end();
}

Result<void> TcpPort::send_joined(PeerId id, Bytes first, Bytes second) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return fail(Errc::closed, "tcp: no such peer");
  return found->second->send(first, second);
}

Result<std::unique_ptr<Window>> TcpPort::open_window(PeerId id, const WindowDescriptor& lent, Access access) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || !found->second->open()) return fail(Errc::closed, "tcp: no such peer");
  if (lent.base != 0) return fail(Errc::invalid_argument, "tcp: a window begins at 0");
  return std::make_unique<TcpWindow>(found->second, lent, access);
}

// A closed connection is removed from the list here, not where it is closed: callers up the stack may still use it.
void TcpPort::forget_closed() {
  for (const auto& weak : std::exchange(shared_->closed, {})) {
    const auto connection = weak.lock();
    if (connection == nullptr) continue;
    const PeerId id = connection->peer();
    by_session_.erase(connection->session());
    std::erase_if(hot_, [&](const Hot& hot) { return hot.connection == connection; });
    peers_.erase(id);
    if (on_gone_) on_gone_(id);
  }
}

// --- Polling ---------------------------------------------------------------------------------------------------------

size_t TcpPort::poll() {
  shared_->in_turn = true;
  size_t progress = resume_done();
  ++turns_;
  handshakes_left_ = handshakes_per_turn;
  shared_->messages_left = all_messages_per_turn;
  const bool often = hot_.empty() || hot_.size() > hot_max || turns_ % turns_between_epolls == 0;
  const bool ask = ask_kernel_ || (often && !is_watched());
  progress += poll_hot();
  if (ask) progress += poll_kernel();
  if (!shared_->done.empty()) progress += resume_done();
  shared_->in_turn = false;
  Connection::send_held(*shared_);
  look_at_clock();
  if (!shared_->closed.empty()) forget_closed();
  return progress;
}

// Limits handshakes per turn: hundreds at once must not delay established connections.
size_t TcpPort::progress(Connection& connection) {
  if (!connection.ready() && handshakes_left_ == 0) {
    connection.postpone();
    return 1;
  }
  if (!connection.ready()) --handshakes_left_;
  return connection.progress();
}

// A few connections are read without asking. Of many, only those with more than a turn's worth of input; epoll reports
// the others, and those in a handshake.
size_t TcpPort::poll_hot() {
  const bool all = hot_.size() <= hot_max;
  size_t progress = 0;
  bool quiet = false;
  size_t polled = 0;  // before the turn's messages ran out
  for (Hot& hot : hot_) {
    Connection& connection = *hot.connection;
    if (shared_->messages_left != 0) ++polled;
    const size_t served = (all && connection.ready()) || connection.has_more() ? this->progress(connection) : 0;
    progress += served;
    // epoll does not report again what has not been read: such a connection stays until it has had its turn.
    hot.quiet_turns = served != 0 || connection.has_more() ? 0 : hot.quiet_turns + 1;
    quiet = quiet || hot.quiet_turns > quiet_turns_max;
  }
  // The next turn begins where this one's messages ran out, or else with another connection.
  if (hot_.size() > 1) {
    const size_t by = polled == hot_.size() ? 1 : polled;
    std::ranges::rotate(hot_, hot_.begin() + static_cast<ptrdiff_t>(by));
  }
  if (!quiet) return progress;
  std::erase_if(hot_, [](Hot& hot) {
    if (hot.quiet_turns <= quiet_turns_max) return false;
    hot.connection->hot = false;
    return true;
  });
  return progress;
}

size_t TcpPort::poll_kernel() {
  ask_kernel_ = false;
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.native_handle(), events.data(), static_cast<int>(events.size()), 0);
  size_t progress = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t id = events[static_cast<size_t>(i)].data.u64;
    if (id == listener_id) {
      accept_all();
      ++progress;
    } else if (const auto peer = peers_.find(id); peer != peers_.end()) {
      if ((events[static_cast<size_t>(i)].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) peer->second->peer_left();
      heat(peer->second);
      progress += this->progress(*peer->second);
    } else if (auto arrived = arrivals_.progress(id, find_key_)) {
      welcome(std::move(*arrived));
      ++progress;
    }
  }
  if (count == static_cast<int>(events.size())) ask_kernel_ = true;
  return progress;
}

void TcpPort::heat(const std::shared_ptr<Connection>& connection) {
  if (std::exchange(connection->hot, true)) {
    for (Hot& hot : hot_) {
      if (hot.connection == connection) hot.quiet_turns = 0;
    }
    return;
  }
  hot_.push_back({connection});
}

size_t TcpPort::resume_done() {
  // A resumed coroutine may start the next transfer, and finish it.
  auto done = std::exchange(shared_->done, {});
  for (Transfer* transfer : done) {
    auto handler = std::move(*transfer->handler);
    const Result<void> outcome = transfer->outcome;
    transfer->handler.reset();
    handler(outcome);
  }
  const size_t resumed = done.size();
  done.clear();
  if (shared_->done.empty()) shared_->done = std::move(done);  // to reuse its memory
  return resumed;
}

void TcpPort::look_at_clock() {
  const auto now = SteadyClock::now();
  if (now < next_look_) return;
  next_look_ = now + look_every;
  arrivals_.expire(now);
  if (accept_again_) accept_all();
  // Only connections with a deadline: thousands of idle ones cost nothing here.
  std::erase_if(shared_->timed, [&](const std::weak_ptr<Connection>& weak) {
    const auto connection = weak.lock();
    return connection == nullptr || !connection->look_at_clock(now);
  });
  if (now < next_session_look_) return;
  next_session_look_ = now + session_look_every;
  // Disconnects sessions that ended, or were never used.
  for (const auto& [id, connection] : peers_) {
    if (find_key_ && !find_key_(connection->session(), nullptr)) connection->end();
  }
}

bool TcpPort::busy() const {
  return !shared_->done.empty() || std::ranges::any_of(hot_, [](const Hot& hot) { return hot.connection->busy(); });
}

bool TcpPort::arm() {
  Connection::send_held(*shared_);
  if (!shared_->done.empty() || !shared_->closed.empty() || ask_kernel_) return false;
  if (is_watched()) return true;
  // Events of connections that were read without epoll are stale, and would wake the loop at once.
  if (poll_kernel() != 0 || ask_kernel_) return false;
  if (std::ranges::any_of(hot_, [](const Hot& hot) { return hot.connection->has_more(); })) return false;
  if (!shared_->done.empty() || !shared_->closed.empty()) return false;
  if (waiting_) return true;
  waiting_ = true;
  auto woken = [this, alive = std::weak_ptr<char>(alive_)](const boost::system::error_code& error) {
    if (alive.expired()) return;
    waiting_ = false;
    if (!error) ask_kernel_ = true;
  };
  epoll_.async_wait(boost::asio::posix::stream_descriptor::wait_read, std::move(woken));
  return true;
}

Result<std::unique_ptr<Port>> listen(Core& core, const Options& options) {
  auto port = std::make_unique<TcpPort>(core, options);
  VB_TRY(port->open());
  return port;
}

}  // namespace verbena::fabric::tcp
