// Support for the tests of this room: a port on a core of its own, and a client that violates the protocol.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "base/test_core.h"
#include "fabric/local/control.h"
#include "fabric/local/counters.h"
#include "fabric/local/disposer.h"
#include "fabric/local/local.h"
#include "fabric/local/pool.h"
#include "fabric/local/shared_region.h"
#include "fabric/local/socket_file.h"

namespace verbena::fabric::local::testing {

inline std::vector<std::byte> pattern(size_t size, unsigned seed = 1) {
  std::vector<std::byte> bytes(size);
  uint32_t x = seed * 2654435761u + 1;
  for (auto& b : bytes) {
    x = x * 1664525u + 1013904223u;
    b = static_cast<std::byte>(x >> 24);
  }
  return bytes;
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/verbena-local-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Mappings of this process whose file has this name.
inline size_t mappings_of(std::string_view name) {
  std::ifstream maps("/proc/self/maps");
  size_t found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find(name) != std::string::npos ? 1 : 0;
  return found;
}

inline Deadline soon() { return deadline_in(std::chrono::seconds(30)); }

// A server that echoes every message, on its own core. `on_core` runs a function on the core's thread.
class Server {
 public:
  explicit Server(const std::string& path, Options options = {},
                  std::chrono::microseconds spin_for = std::chrono::microseconds(50))
      : core_({.index = 0, .pin_to_cpu = -1, .spin_for = spin_for}) {
    auto port = listen(core_, path, options);
    EXPECT_TRUE(port) << (port ? "" : describe(port.error()));
    if (!port) return;
    port_ = std::move(*port);
    port_->on_message([this](PeerId peer, Bytes message) {
      last_peer_.store(peer);
      ++messages_;
      [[maybe_unused]] auto sent = port_->send(peer, message);
    });
    port_->on_gone([this](PeerId) { ++gone_; });
    thread_ = std::thread([this] { core_.run(); });
  }
  ~Server() {
    core_.stop();
    if (thread_.joinable()) thread_.join();
  }

  template <class F>
  auto on_core(F f) {
    return call_on(core_, std::move(f));
  }
  // Runs a window operation on the core's thread and waits for it.
  Result<void> wait_for(Task<Result<void>> task) { return spawn_on(core_, std::move(task)).get(); }

  Port& port() { return *port_; }
  Core& core() { return core_; }
  PeerId last_peer() const { return last_peer_.load(); }
  size_t gone() const { return gone_.load(); }
  size_t messages() const { return messages_.load(); }
  void wait_for_gone(size_t count) {
    const auto deadline = soon();
    while (gone() < count && SteadyClock::now() < deadline) std::this_thread::yield();
    ASSERT_GE(gone(), count);
  }

 private:
  Core core_;
  std::unique_ptr<Port> port_;
  std::thread thread_;
  std::atomic<PeerId> last_peer_{0};
  std::atomic<size_t> gone_{0}, messages_{0};
};

inline std::unique_ptr<Link> must_connect(const std::string& path, Options options = {}) {
  options.handshake_timeout = std::chrono::seconds(20);
  auto link = connect(path, options);
  EXPECT_TRUE(link) << (link ? "" : describe(link.error()));
  return link ? std::move(*link) : nullptr;
}

// Waits for one message and returns it; empty when the link closed or time ran out.
inline std::vector<std::byte> receive(Link& link, Deadline deadline = soon()) {
  std::vector<std::byte> got;
  while (SteadyClock::now() < deadline) {
    auto polled = link.poll([&](Bytes message) { got.assign(message.begin(), message.end()); });
    if (!polled || *polled != 0) return got;
    link.wait(deadline);
  }
  return got;
}

inline std::vector<std::byte> echo(Link& link, Bytes message) {
  if (!link.send(message)) return {};
  return receive(link);
}

// Waits until poll() reports that the server is gone.
inline bool sees_closed(Link& link) {
  const auto deadline = soon();
  while (SteadyClock::now() < deadline) {
    if (!link.poll([](Bytes) {})) return true;
    link.wait(deadline_in(std::chrono::milliseconds(20)));
  }
  return false;
}

// Speaks the socket protocol by hand, with direct access to the shared region.
struct RawClient {
  Fd socket;
  SharedRegion region;
  Fd doorbell;
  ControlMessage welcome;

  static Result<Packet> receive(int socket, Deadline deadline = soon()) {
    for (;;) {
      auto packet = receive_packet(socket);
      if (packet || packet.error() != Errc::would_block || SteadyClock::now() > deadline) return packet;
      std::this_thread::yield();
    }
  }
  static RawClient join(const std::string& path) {
    RawClient raw;
    raw.socket = std::move(*connect_to(path));
    EXPECT_TRUE(send_control(raw.socket.get(), {.type = ControlType::hello}));
    auto packet = receive(raw.socket.get());
    EXPECT_TRUE(packet);
    raw.welcome = *parse_control(packet->bytes, packet->descriptors.size());
    EXPECT_EQ(raw.welcome.type, ControlType::welcome);
    raw.region = std::move(*SharedRegion::attach(std::move(packet->descriptors[0]), raw.welcome.a, raw.welcome.b));
    raw.doorbell = std::move(packet->descriptors[1]);
    return raw;
  }
  void ring() {
    const uint64_t one = 1;
    EXPECT_EQ(::write(doorbell.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  // The server's reply to sharing `fd`: its status, or closed.
  Errc share(int fd, uint64_t size) {
    const int fds[] = {fd};
    EXPECT_TRUE(send_control(socket.get(), {.type = ControlType::share, .request = 7, .a = size}, fds));
    auto packet = receive(socket.get());
    if (!packet) return packet.error().code;
    auto reply = parse_control(packet->bytes, packet->descriptors.size());
    EXPECT_TRUE(reply && reply->type == ControlType::shared && reply->request == 7);
    return static_cast<Errc>(reply->status);
  }
  bool is_dropped() {
    const auto deadline = soon();
    while (SteadyClock::now() < deadline) {
      auto packet = receive(socket.get(), deadline);
      if (!packet) return packet.error() == Errc::closed;
    }
    return false;
  }
};

// Lets the port hear of the client, by a message.
inline PeerId introduce(Server& server, RawClient& raw) {
  const size_t before = server.messages();
  Producer(raw.region.to_server()).push(as_bytes("hello"), {});
  raw.ring();
  const auto deadline = soon();
  while (server.messages() == before && SteadyClock::now() < deadline) std::this_thread::yield();
  return server.last_peer();
}
inline PeerId admit(Server& server, RawClient& raw) {
  const PeerId peer = introduce(server, raw);
  server.on_core([&] { return server.port().admit(peer, 0); });
  return peer;
}

// A socket whose close() waits: it lingers, with bytes that its peer does not read.
struct Lingering {
  Fd socket, peer;
  explicit Lingering(std::chrono::seconds patience) {
    const Fd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listening.get(), generic, size), 0);
    EXPECT_EQ(::listen(listening.get(), 1), 0);
    EXPECT_EQ(::getsockname(listening.get(), generic, &size), 0);
    socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), generic, size), 0);
    peer = Fd(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const linger waits{.l_onoff = 1, .l_linger = static_cast<int>(patience.count())};
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &waits, sizeof waits), 0);
    const std::vector<std::byte> bytes(1 << 16);
    while (::send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  }
};

// Returns when every descriptor that was disposed of is closed.
inline void all_are_closed() {
  const auto closed = std::make_shared<std::promise<void>>();
  dispose({}, std::shared_ptr<const void>(closed.get(), [closed](const void*) { closed->set_value(); }));
  closed->get_future().wait();
}

// A memfd as made by a correct client, unless other arguments are given.
inline Fd shared_memfd(size_t size, int seals, bool backed = true, unsigned flags = 0) {
  Fd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  if (backed && size != 0) {
    EXPECT_EQ(::posix_fallocate(fd.get(), 0, static_cast<off_t>(size)), 0);
  }
  if (seals != 0) {
    EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  }
  return fd;
}

}  // namespace verbena::fabric::local::testing
