#include "fabric/local/local_listener.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/log_limit.h"
#include "fabric/local/counters.h"
#include "fabric/local/socket_file.h"

namespace verbena::fabric::local {

namespace {

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = fd;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

void signal(int eventfd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(eventfd, &one, sizeof one);
}

// Of the process that connected.
ucred credentials_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size);
  return credentials;
}

void log_joined(PeerId peer, const ucred& credentials) {
  static log::Limit limit;
  limit.info("local: client joined peer={} pid={} uid={} gid={}", peer, credentials.pid, credentials.uid,
             credentials.gid);
}

}  // namespace

template <class Event>
void LocalListener::post(Event event) {
  auto guarded = [alive = alive_, event = std::move(event)]() mutable {
    if (auto held = alive.lock()) event();
  };
  boost::asio::post(core_.io(), std::move(guarded));
}

Result<std::unique_ptr<LocalListener>> LocalListener::open(Core& core, const std::string& socket_path,
                                                           const Options& options, ListenerEvents* events,
                                                           std::weak_ptr<void> alive) {
  std::unique_ptr<LocalListener> listener(new LocalListener(core, options, events, std::move(alive)));
  listener->memory_bytes_ = std::make_shared<Budget>(options.memory_size_max);
  // Those of clients that have left take a moment to be closed.
  listener->sockets_ = std::make_shared<Budget>(options.peers_max + 2 * options.handshakes_max);
  listener->epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  listener->wakeup_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener->epoll_ || !listener->wakeup_) return fail(Errc::io_error, "local: epoll", errno);
  VB_TRY(listener->bind(socket_path));
  watch(listener->epoll_.get(), listener->wakeup_.get());
  watch(listener->epoll_.get(), listener->listening_.get());
  listener->thread_ = std::thread(&LocalListener::run, listener.get());
  return listener;
}

Result<void> LocalListener::bind(const std::string& path) {
  VB_ASSIGN(Listener listener, listen_at(path));
  listening_ = std::move(listener.socket);
  device_ = listener.device;
  inode_ = listener.inode;
  path_ = path;
  return {};
}

LocalListener::~LocalListener() {
  if (!path_.empty()) remove_socket_file(path_, device_, inode_);
  if (!thread_.joinable()) return;
  stopping_.store(true);
  signal(wakeup_.get());
  thread_.join();
  for (auto& [fd, connection] : connections_) ::shutdown(fd, SHUT_RDWR);
}

void LocalListener::drop(PeerId peer) {
  {
    std::lock_guard lock(mutex_);
    dropped_.push_back(peer);
  }
  signal(wakeup_.get());
}

void LocalListener::admit(PeerId peer) {
  {
    std::lock_guard lock(mutex_);
    admitted_.push_back(peer);
  }
  signal(wakeup_.get());
}

void LocalListener::run() {
  while (!stopping_.load()) {
    epoll_event events[64];
    // With handshakes in progress, check for slow ones now and then; likewise for room for more sockets.
    const bool deadlines = waiting_ != 0 && options_.admission_timeout.count() != 0;
    const int timeout_ms = handshakes() != 0 || !accepting_ ? 50 : deadlines ? 500 : -1;
    const int count = ::epoll_wait(epoll_.get(), events, 64, timeout_ms);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wakeup_.get()) {
        uint64_t drained;
        [[maybe_unused]] const ssize_t got = ::read(fd, &drained, sizeof drained);
      } else if (fd == listening_.get()) {
        accept_all();
      } else {
        serve(fd);
      }
    }
    note_admitted();
    close_dropped();
    close_slow_ones();
    if (!accepting_) accept_again();
  }
}

size_t LocalListener::handshakes() const { return connections_.size() - descriptors_.size(); }

void LocalListener::accept_all() {
  for (int taken = 0; taken < 64; ++taken) {
    const Share one[] = {{sockets_, 1, "local: too many sockets"}};
    auto place = take_all(one);
    if (!place) {
      accepting_ = false;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listening_.get(), nullptr);
      return;
    }
    Fd accepted(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!accepted) {
      // Out of descriptors: the listener stays readable, so do not spin on it.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
        static log::Limit limit;
        limit.warn("local: cannot accept: errno={}", errno);
        ::usleep(100'000);
      }
      return;
    }
    if (handshakes() >= options_.handshakes_max) {
      const int oldest = oldest_of_new([](const Connection& connection) { return connection.peer == 0; });
      if (oldest >= 0) {
        refuse(connections_.at(oldest), Errc::slow_down);
        close(oldest, false);
      }
    }
    const int fd = accepted.get();
    Connection connection;
    connection.socket = std::make_shared<Socket>(std::move(accepted), std::move(*place));
    connection.deadline = deadline_in(options_.handshake_timeout);
    connections_.insert_or_assign(fd, std::move(connection));
    new_.insert(fd);
    watch(epoll_.get(), fd);
  }
}

void LocalListener::accept_again() {
  if (sockets_->used() == sockets_->limit()) return;
  accepting_ = true;
  watch(epoll_.get(), listening_.get());
}

// One packet per turn: a client that sends many does not delay the others.
void LocalListener::serve(int fd) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  auto packet = receive_packet(fd);
  if (!packet) {
    if (packet.error().code != Errc::would_block) close(fd, true);
    return;
  }
  if (!handle(found->second, std::move(*packet))) close(fd, true);
}

// False: close the connection.
bool LocalListener::handle(Connection& connection, Packet packet) {
  if (packet.cut_off) return answer_cut_off(connection, std::move(packet));
  auto message = parse_control(packet.bytes, packet.descriptors.size());
  const bool has_joined = connection.peer != 0;
  if (message && !has_joined && message->type == ControlType::hello) return welcome(connection);
  if (message && has_joined && message->type == ControlType::share) {
    return share(connection, *message, std::move(packet.descriptors[0]));
  }
  if (message && has_joined && message->type == ControlType::withdraw && withdraw(connection, *message)) return true;
  if (message && has_joined && message->type == ControlType::hand_over) {
    return hand_over(connection, *message, std::move(packet.descriptors));
  }

  dispose_all(std::move(packet.descriptors));
  if (has_joined) {
    Counters::get().violations.add();
    static log::Limit limit;
    limit.warn("local: client broke the socket protocol peer={}", connection.peer);
  } else {
    refuse(connection, message ? Errc::malformed : message.error().code);
  }
  return false;
}

// -1: there is none. Skips admitted clients, of which there may be thousands.
template <class Condition>
int LocalListener::oldest_of_new(Condition condition) const {
  int oldest = -1;
  Deadline first{};
  for (const int fd : new_) {
    const Connection& connection = connections_.at(fd);
    if (!condition(connection) || (oldest >= 0 && connection.deadline >= first)) continue;
    oldest = fd;
    first = connection.deadline;
  }
  return oldest;
}

// A client that has joined and never authenticates a session must not keep others out.
bool LocalListener::make_room() {
  if (options_.admission_timeout.count() == 0 || waiting_ == 0) return false;
  const int oldest = oldest_of_new([](const Connection& connection) { return connection.peer != 0; });
  if (oldest < 0) return false;
  Counters::get().refused.add();
  close(oldest, true);
  return true;
}

void LocalListener::note_admitted() {
  std::vector<PeerId> admitted;
  {
    std::lock_guard lock(mutex_);
    admitted.swap(admitted_);
  }
  for (const PeerId peer : admitted) {
    const auto found = descriptors_.find(peer);
    if (found == descriptors_.end()) continue;
    Connection& connection = connections_.at(found->second);
    if (std::exchange(connection.admitted, true)) continue;
    new_.erase(found->second);
    --waiting_;
  }
}

bool LocalListener::welcome(Connection& connection) {
  if (descriptors_.size() >= options_.peers_max && !make_room()) {
    refuse(connection, Errc::slow_down);
    return false;
  }
  const ucred credentials = credentials_of(connection.socket->get());
  const auto mappings_of_user = mapping_shares().of_user(credentials.uid);
  auto region = make_region(mappings_of_user);
  Fd doorbell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!region || !doorbell) {
    static log::Limit limit;
    limit.warn("local: no resources for a client: {}", region ? "eventfd" : describe(region.error()));
    refuse(connection, Errc::slow_down);
    return false;
  }
  connection.peer = peer_next_++;
  connection.deadline = deadline_in(options_.admission_timeout);
  ++waiting_;
  connection.budgets = {memory_bytes_, std::make_shared<Budget>(options_.client_memory_size_max),
                        std::make_shared<Budget>(options_.client_memory_count_max), mappings_of_user};
  descriptors_.emplace(connection.peer, connection.socket->get());
  connection.parcel_budgets = Parcel::budgets_for(credentials.uid);
  log_joined(connection.peer, credentials);
  Counters::get().peers.add();
  post([events = events_, peer = connection.peer, socket = connection.socket, region = std::move(*region),
        doorbell = std::move(doorbell)]() mutable {
    events->joined(peer, std::move(socket), std::move(region), std::move(doorbell));
  });
  return true;
}

Result<SharedRegion> LocalListener::make_region(const std::shared_ptr<Budget>& mappings_of_user) const {
  const Share shares[] = {{mappings_of_user, SharedRegion::mappings, "local: too many mappings of one user"},
                          {mapping_shares().all(), SharedRegion::mappings, "local: too many mappings of all clients"}};
  VB_ASSIGN(auto taken, take_all(shares));
  VB_ASSIGN(SharedRegion region, SharedRegion::create(options_.ring_size, options_.message_size_max));
  region.count(std::move(taken));
  return region;
}

size_t links_max() { return mapping_shares().all()->limit() / (SharedRegion::mappings + 1); }

bool LocalListener::share(Connection& connection, const ControlMessage& message, Fd fd) {
  ControlMessage reply{.type = ControlType::shared, .request = message.request};
  if (connection.key_next >= device_key_first) return false;  // a million keys in one connection: it can reconnect
  note_admitted();                                            // perhaps a moment ago
  if (options_.admission_timeout.count() != 0 && !connection.admitted) {
    dispose(std::move(fd));
    const Error why{.code = Errc::access_denied, .sys = 0, .context = "local: memory before admission"};
    return refuse_descriptors(connection, reply, why);
  }
  auto memory = ClientMemory::map(std::move(fd), message.a, connection.budgets);
  // What is no memfd of the right kind comes from no honest client; that there is no room may happen to any.
  if (!memory && memory.error() == Errc::invalid_argument) {
    return refuse_descriptors(connection, reply, memory.error());
  }
  if (!memory) return refuse_memory(connection, reply, memory.error());
  connection.refused = 0;
  const uint32_t key = connection.key_next++;
  connection.keys.push_back(key);
  reply.a = key;
  post([events = events_, peer = connection.peer, key, memory = std::move(*memory), reply]() mutable {
    events->memory_shared(peer, key, std::move(memory), reply);
  });
  return true;
}

bool LocalListener::refuse_memory(Connection& connection, ControlMessage reply, const Error& why) {
  Counters::get().memory_refused.add();
  if (!std::exchange(connection.refusal_logged, true)) {
    static log::Limit limit;
    limit.warn("local: shared memory refused peer={}: {}", connection.peer, describe(why));
  }
  reply.status = static_cast<uint32_t>(why.code);
  // A client that does not read its replies cannot be served.
  return send_control(connection.socket->get(), reply).has_value();
}

bool LocalListener::hand_over(Connection& connection, const ControlMessage& message, std::vector<Fd> descriptors) {
  ControlMessage reply{.type = ControlType::shared, .request = message.request};
  note_admitted();  // perhaps a moment ago
  if (!options_.takes_descriptors || !connection.admitted) {
    dispose_all(std::move(descriptors));
    const Error why{.code = Errc::access_denied, .sys = 0, .context = "local: descriptors"};
    return refuse_descriptors(connection, reply, why);
  }
  auto parcel = Parcel::keep(std::move(descriptors), connection.parcel_budgets);
  if (!parcel) return refuse_descriptors(connection, reply, parcel.error());
  connection.refused = 0;
  const uint32_t number = connection.parcel_next++;
  reply.a = number;
  post([events = events_, peer = connection.peer, number, parcel = std::move(*parcel), reply]() mutable {
    events->handed_over(peer, number, std::move(parcel), reply);
  });
  return true;
}

// Those that are refused are closed uncounted: a client does not go on and on with them.
bool LocalListener::refuse_descriptors(Connection& connection, const ControlMessage& reply, const Error& why) {
  const unsigned most = connection.admitted ? 64 : 4;
  if (++connection.refused > most) {
    Counters::get().violations.add();
    static log::Limit limit;
    limit.warn("local: client sends too many descriptors that are refused peer={}", connection.peer);
    return false;
  }
  return refuse_memory(connection, reply, why);
}

// This process is out of descriptors, which is no fault of the client's.
bool LocalListener::answer_cut_off(Connection& connection, Packet packet) {
  dispose_all(std::move(packet.descriptors));
  const auto message = parse_control(packet.bytes);
  const bool brings = message && (message->type == ControlType::share || message->type == ControlType::hand_over);
  if (connection.peer == 0 || !brings) return false;
  return refuse_descriptors(connection, {.type = ControlType::shared, .request = message->request},
                            {.code = Errc::slow_down, .sys = 0, .context = "local: out of descriptors"});
}

bool LocalListener::withdraw(Connection& connection, const ControlMessage& message) {
  const auto found = std::find(connection.keys.begin(), connection.keys.end(), message.a);
  if (found == connection.keys.end()) return false;
  post([events = events_, peer = connection.peer, key = *found,
        reply = ControlMessage{.type = ControlType::shared, .request = message.request}] {
    events->memory_withdrawn(peer, key, reply);
  });
  connection.keys.erase(found);
  return true;
}

void LocalListener::refuse(Connection& connection, Errc code) {
  Counters::get().refused.add();
  const ControlMessage refusal{.type = ControlType::refused, .status = static_cast<uint32_t>(code)};
  [[maybe_unused]] auto sent = send_control(connection.socket->get(), refusal);  // a client may not read it any more
}

void LocalListener::close(int fd, bool tell) {
  auto node = connections_.extract(fd);
  if (node.empty()) return;
  new_.erase(fd);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  ::shutdown(fd, SHUT_RDWR);
  const PeerId peer = node.mapped().peer;
  if (peer == 0) return;
  if (!node.mapped().admitted) --waiting_;
  descriptors_.erase(peer);
  if (tell) {
    post([events = events_, peer] { events->gone(peer); });
  }
}

void LocalListener::close_slow_ones() {
  const bool deadlines = waiting_ != 0 && options_.admission_timeout.count() != 0;
  if (handshakes() == 0 && !deadlines) return;
  const auto now = SteadyClock::now();
  std::vector<int> slow;
  for (const int fd : new_) {
    const Connection& connection = connections_.at(fd);
    if ((connection.peer == 0 || deadlines) && connection.deadline < now) slow.push_back(fd);
  }
  for (int fd : slow) {
    if (Connection& connection = connections_.at(fd); connection.peer == 0) refuse(connection, Errc::timed_out);
    close(fd, true);
  }
}

void LocalListener::close_dropped() {
  std::vector<PeerId> dropped;
  {
    std::lock_guard lock(mutex_);
    dropped.swap(dropped_);
  }
  for (PeerId peer : dropped) {
    const auto found = descriptors_.find(peer);
    if (found != descriptors_.end()) close(found->second, false);
  }
}

}  // namespace verbena::fabric::local
