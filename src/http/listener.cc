#include "http/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <mutex>

#include "base/listen_address.h"
#include "base/log.h"
#include "base/socket_events.h"
#include "http/connection.h"
#include "http/tls.h"

namespace verbena::http {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
constexpr auto with_tuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds sweep_every{250};
constexpr std::chrono::milliseconds accept_again_after{20};
constexpr std::chrono::seconds complain_every{10};
constexpr std::chrono::milliseconds places_after{1};
constexpr int looks_for_place = 12;  // enough to search a list of ten thousand connections
constexpr size_t looks_at_once = 2048;
constexpr size_t served_at_once = 4;  // so many connections with more activity are closed at a time

// The ports of this process, with the number of listeners each: SO_REUSEPORT would let another process of the same user
// share them silently, so the first listener of a port checks that it is free.
class OwnPorts {
 public:
  Result<void> claim(const tcp::endpoint& endpoint) {
    std::lock_guard lock(mutex_);
    if (auto found = counts_.find(endpoint.port()); found != counts_.end()) return {};
    const int fd = ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return fail(Errc::connection_failed, "socket", errno);
    const int one = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    const int rc = ::bind(fd, endpoint.data(), static_cast<socklen_t>(endpoint.size()));
    const int error = errno;
    ::close(fd);
    if (rc != 0) return fail(Errc::connection_failed, "bind", error);
    return {};
  }
  void add(uint16_t port) {
    std::lock_guard lock(mutex_);
    ++counts_[port];
  }
  void remove(uint16_t port) {
    std::lock_guard lock(mutex_);
    if (auto found = counts_.find(port); found != counts_.end() && --found->second == 0) counts_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::map<uint16_t, int> counts_;
};

OwnPorts& own_ports() {
  static OwnPorts ports;
  return ports;
}

Result<asio::ip::address> parse_address(std::string_view text) {
  if (const auto address = parse_listen_host(text)) return *address;
  return fail(Errc::bad_config, "http: the listen address is not an IP address");
}

std::string address_of(const tcp::endpoint& endpoint) {
  const auto address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  return address.to_string();
}

}  // namespace

ListenerState::ListenerState(Core& core, Limits limits, std::optional<asio::ssl::context> tls, Handler handler,
                             std::shared_ptr<ConnectionRoom> room)
    : core_(core),
      limits_(limits),
      tls_(std::move(tls)),
      handler_(std::move(handler)),
      room_(std::move(room)),
      acceptor_(core.io()),
      sweep_timer_(core.io()),
      open_gauge_(metrics::gauge("verbena_http_connections", "Open HTTP connections")),
      accepted_(metrics::counter("verbena_http_connections_total", "HTTP connections accepted")),
      accept_failures_(
          metrics::counter("verbena_http_accept_failures_total", "Connections that could not be accepted")),
      displaced_(metrics::counter("verbena_http_connections_displaced_total",
                                  "Connections closed for others to get in, since their clients had shown least")) {}

ListenerState::~ListenerState() {
  if (bound_port_ != 0) own_ports().remove(bound_port_);
}

Result<void> check_free(std::string_view address, uint16_t port) {
  VB_ASSIGN(const asio::ip::address ip, parse_address(address));
  if (port == 0) return {};
  auto free = own_ports().claim(tcp::endpoint(ip, port));
  if (free || address != "*") return free;
  return own_ports().claim(tcp::endpoint(asio::ip::address_v4::any(), port));  // a machine without IPv6
}

Result<uint16_t> ListenerState::bind(std::string_view address, uint16_t port) {
  VB_ASSIGN(const asio::ip::address ip, parse_address(address));
  tcp::endpoint endpoint(ip, port);
  boost::system::error_code ec;
  acceptor_.open(endpoint.protocol(), ec);
  if (ec && address == "*") {  // a machine without IPv6
    endpoint.address(asio::ip::address_v4::any());
    acceptor_.open(endpoint.protocol(), ec);
  }
  if (ec) return fail(Errc::connection_failed, "http: socket", ec.value());
  if (port != 0) VB_TRY(own_ports().claim(endpoint));
  acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
  const int one = 1;
  ::setsockopt(acceptor_.native_handle(), SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  if (endpoint.address().is_v6()) acceptor_.set_option(asio::ip::v6_only(!ip.is_unspecified()), ec);
  acceptor_.bind(endpoint, ec);
  if (ec) return fail(Errc::connection_failed, "http: bind", ec.value());
  acceptor_.listen(1024, ec);
  if (ec) return fail(Errc::connection_failed, "http: listen", ec.value());
  bound_port_ = acceptor_.local_endpoint(ec).port();
  own_ports().add(bound_port_);
  return bound_port_;
}

void ListenerState::start() {
  yielding_ = room_->add([weak = weak_from_this(), &io = core_.io()](size_t count, ConnectionRoom::Need need) {
    asio::post(io, [weak, count, need] {
      if (const auto self = weak.lock()) self->yield(count, need);
    });
  });
  asio::co_spawn(core_.io(), accept_loop(shared_from_this()), asio::detached);
  asio::co_spawn(core_.io(), sweep_loop(shared_from_this()), asio::detached);
}

void ListenerState::stop() {
  stopping_ = true;
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  for (auto* connection : connections_) {
    if (connection->idle()) connection->wire().cancel();
  }
  if (connections_.empty()) sweep_timer_.cancel();
}

void ListenerState::close_all() {
  stop();
  for (auto* connection : connections_) connection->wire().cancel();
}

ListenerState::Place ListenerState::add(Connection* connection) {
  count_.fetch_add(1, std::memory_order_relaxed);
  open_gauge_.add(1);
  return connections_.insert(connections_.end(), connection);
}

void ListenerState::remove(Place place) {
  connections_.erase(place);
  open_gauge_.add(-1);
  count_.fetch_sub(1, std::memory_order_relaxed);
  if (stopping_ && connections_.empty()) sweep_timer_.cancel();
}

Task<void> ListenerState::accept_loop(std::shared_ptr<ListenerState> self) {
  asio::steady_timer pause(self->core_.io());
  Deadline complain_at{};
  while (!self->stopping_) {
    auto [ec, socket] = co_await self->acceptor_.async_accept(with_tuple);
    if (self->stopping_) co_return;
    if (!ec) {
      note_socket_event();
      co_await self->admit(std::move(socket));
      continue;
    }
    if (!self->acceptor_.is_open()) co_return;
    if (ec == asio::error::connection_aborted || ec == asio::error::connection_reset) continue;
    // Out of descriptors or memory: new connections wait in the kernel's queue until others have ended.
    self->accept_failures_.add();
    if (const auto now = SteadyClock::now(); now >= complain_at) {
      log::warn("http: accept failed: {}; is the limit of open files too low?", ec.message());
      complain_at = now + complain_every;
    }
    pause.expires_after(accept_again_after);
    co_await pause.async_wait(with_tuple);
  }
}

Task<void> ListenerState::admit(tcp::socket socket) {
  boost::system::error_code ec;
  const auto peer = socket.remote_endpoint(ec);
  if (ec) co_return;
  const std::string address = address_of(peer);
  room_->ask_for_places();
  // Connections that were asked to close end in a moment. If their places are taken by others meanwhile, the next ones
  // are asked.
  for (int looks = 0; looks < looks_for_place && room_->need() == ConnectionRoom::Need::full; ++looks) {
    asio::steady_timer moment(core_.io(), places_after);
    co_await moment.async_wait(with_tuple);
    if (stopping_) co_return;
    room_->ask_for_places();
  }
  auto place = room_->enter(address);
  if (place == nullptr) {
    if (!tls_) {
      static constexpr std::string_view busy =
          "HTTP/1.1 503 Service Unavailable\r\nServer: Verbena\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
          "Connection: close\r\n\r\n";
      (void)::send(socket.native_handle(), busy.data(), busy.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    co_return;
  }
  accepted_.add();
  socket.set_option(tcp::no_delay(true), ec);
  auto connection = std::make_shared<Connection>(shared_from_this(), std::move(socket), address, std::move(place));
  asio::co_spawn(core_.io(), Connection::serve(std::move(connection)), asio::detached);
}

// Examines the oldest, and the next time those after them, so that a list of many thousands is not searched at once.
void ListenerState::yield(size_t count, ConnectionRoom::Need need) {
  struct Candidate {
    Connection::Standing standing;
    Connection* connection;
  };
  std::vector<Candidate> candidates;
  const auto furthest = need == ConnectionRoom::Need::full ? Connection::Shown::signed_idle : Connection::Shown::idle;
  const size_t looks = std::min(connections_.size(), looks_at_once);
  const Deadline now = SteadyClock::now();
  auto end = connections_.begin();
  for (size_t i = 0; i < looks; ++i, ++end) {
    const auto standing = (*end)->standing(now);
    if (standing.shown <= furthest) candidates.push_back({standing, *end});
  }
  connections_.splice(connections_.end(), connections_, connections_.begin(), end);
  // A connection in use, or idle after a signed request, is closed only if none has shown less.
  const auto little = [](const Candidate& one) { return one.standing.shown <= Connection::Shown::fresh; };
  const auto served = std::ranges::partition(candidates, little).begin();
  looked_in_vain_ = served == candidates.begin() ? looked_in_vain_ + looks : 0;
  if (looked_in_vain_ >= connections_.size()) {
    count = std::min(count, served_at_once);
  } else {
    candidates.erase(served, candidates.end());
  }
  count = std::min(count, candidates.size());
  const auto first = candidates.begin(), last = first + static_cast<std::ptrdiff_t>(count);
  std::ranges::nth_element(first, last, candidates.end(), {}, &Candidate::standing);
  for (auto it = first; it != last; ++it) it->connection->leave();
  displaced_.add(count);
}

Task<void> ListenerState::sweep_loop(std::shared_ptr<ListenerState> self) {
  while (!self->stopping_ || !self->connections_.empty()) {
    self->sweep_timer_.expires_after(sweep_every);
    co_await self->sweep_timer_.async_wait(with_tuple);
    const Deadline now = SteadyClock::now();
    for (auto* connection : self->connections_) connection->wire().sweep(now);
  }
}

namespace {

class AsioListener final : public Listener {
 public:
  AsioListener(std::shared_ptr<ListenerState> state, uint16_t port) : state_(std::move(state)), port_(port) {}
  ~AsioListener() override { close(); }
  uint16_t port() const override { return port_; }
  void stop_accepting() override {
    asio::dispatch(state_->core().io(), [state = state_] { state->stop(); });
  }
  void close() override {
    asio::dispatch(state_->core().io(), [state = state_] { state->close_all(); });
  }
  size_t connections() const override { return state_->connections(); }

 private:
  std::shared_ptr<ListenerState> state_;
  uint16_t port_;
};

}  // namespace

Result<std::unique_ptr<Listener>> listen(Core& core, std::string_view address, uint16_t port, Limits limits,
                                         std::optional<TlsFiles> tls, Handler handler,
                                         std::shared_ptr<ConnectionRoom> room) {
  std::optional<asio::ssl::context> context;
  if (tls) {
    auto made = make_tls_context(*tls);
    if (!made) return std::unexpected(made.error());
    context.emplace(std::move(*made));
  }
  if (room == nullptr) {
    const ConnectionRoom::Limits own{.connections_max = limits.connections_max, .client_max = 0, .reserved = 0};
    room = std::make_shared<ConnectionRoom>(own, "s3");
  }
  auto state = std::make_shared<ListenerState>(core, limits, std::move(context), std::move(handler), std::move(room));
  VB_ASSIGN(const uint16_t bound, state->bind(address, port));
  state->start();
  return std::make_unique<AsioListener>(std::move(state), bound);
}

}  // namespace verbena::http
