// For tests: a server core with a port, clients polled by threads of their own, and raw sockets.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/test_core.h"
#include "fabric/tcp/counters.h"
#include "fabric/tcp/frame.h"
#include "fabric/tcp/handshake.h"
#include "fabric/tcp/socket_address.h"
#include "fabric/tcp/tcp.h"
#include "memory/arena.h"

namespace verbena::fabric::tcp {

inline ConnectionKey key_of(uint64_t session) {
  ConnectionKey key;
  key.bytes.fill(std::byte{static_cast<unsigned char>(session * 7 + 1)});
  return key;
}

// One core with its port. Sessions 1 to 99 exist, unless a test sets `sessions`; each message is echoed.
class TestServer {
 public:
  explicit TestServer(Options options = {})
      : options(options), arena(*memory::Arena::create(64 * MiB)), core(Core::Options{}) {
    auto opened = listen(core, options);
    EXPECT_TRUE(opened) << describe(opened.error());
    port = std::move(*opened);
    port->on_connection([this](uint64_t session, ConnectionKey* key) {
      if (session == 0 || session >= sessions || session == ended) return false;
      if (key != nullptr) *key = key_of(session);
      return true;
    });
    port->on_message([this](PeerId from, Bytes message) {
      last = from;
      ++messages;
      if (on_message) on_message(from, message);
      if (echo) refused += !port->send(from, message);
    });
    port->on_gone([this](PeerId) { ++gone; });
    thread_ = std::thread([this] { core.run(); });
  }
  ~TestServer() {
    call_on(core, [this] { port.reset(); });
    core.stop();
    thread_.join();
  }

  template <class F>
  auto call(F f) {
    return call_on(core, std::move(f));
  }
  template <class T>
  auto spawn(Task<T> task) {
    return spawn_on(core, std::move(task));
  }
  // A window belongs to its core: it is destroyed there, too.
  std::shared_ptr<Window> window(const WindowDescriptor& lent, Access access) {
    auto opened = call([&] { return port->open_window(last, lent, access); });
    EXPECT_TRUE(opened) << describe(opened.error());
    if (!opened) return nullptr;
    return {opened->release(), [this](Window* window) { call([window] { delete window; }); }};
  }
  Result<void> write(Window& window, Bytes from, uint64_t at = 0,
                     std::chrono::seconds limit = std::chrono::seconds(20)) {
    return spawn(window.write(from, at, deadline_in(limit))).get();
  }
  Result<void> read(Window& window, MutableBytes into, uint64_t at = 0,
                    std::chrono::seconds limit = std::chrono::seconds(20)) {
    return spawn(window.read(into, at, deadline_in(limit))).get();
  }
  memory::Lease lease(size_t size, unsigned fill) {
    auto lease = std::move(*arena->lease(size));
    for (size_t i = 0; i < size; ++i) lease.data()[i] = static_cast<std::byte>(i * 31 + fill);
    return lease;
  }
  Dial dial(uint64_t session = 1) const {
    return {.address = port->address(),
            .host = "127.0.0.1",
            .session = session,
            .key = key_of(session),
            .encrypt = options.encrypt,
            .message_size_max = options.message_size_max};
  }

  Options options;
  std::atomic<uint64_t> sessions{100};
  std::unique_ptr<memory::Arena> arena;
  Core core;
  std::unique_ptr<Port> port;
  std::atomic<PeerId> last{0};
  std::atomic<uint64_t> ended{0};
  std::atomic<int> messages{0}, refused{0}, gone{0};
  std::atomic<bool> echo{true};
  Port::OnMessage on_message;

 private:
  std::thread thread_;
};

// A client whose link is polled by a thread of its own, unless frozen.
class TestClient {
 public:
  explicit TestClient(const TestServer& server, uint64_t session = 1) {
    auto made = connect(server.dial(session));
    EXPECT_TRUE(made) << describe(made.error());
    if (!made) return;
    link = std::move(*made);
    thread_ = std::thread([this] { run(); });
  }
  ~TestClient() { stop(); }

  void stop() {
    stopping_ = true;
    if (link) link->wake();
    if (thread_.joinable()) thread_.join();
    link.reset();
  }
  void freeze(bool frozen) {
    frozen_ = frozen;
    link->wake();
    while (parked_ != frozen) std::this_thread::yield();
  }
  Result<void> send(Bytes message) {
    Result<void> sent;
    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(polling_);
      sent = link->send(message);
      return sent || sent.error().code != Errc::would_block;
    }));
    return sent;
  }
  // Sends a message and waits until the server knows this client.
  void join(TestServer& server) {
    const int before = server.messages;
    ASSERT_TRUE(send(as_bytes("hello")));
    ASSERT_TRUE(eventually([&] { return server.messages > before; }));
  }
  std::vector<std::string> received() {
    const std::lock_guard lock(polling_);
    return received_;
  }
  bool closed() const { return closed_; }

  std::unique_ptr<Link> link;

 private:
  void run() {
    while (!stopping_) {
      parked_ = frozen_.load();
      if (parked_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      {
        const std::lock_guard lock(polling_);
        if (!link->poll([this](Bytes message) { received_.emplace_back(as_text(message)); })) closed_ = true;
      }
      if (closed_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      link->wait(deadline_in(std::chrono::milliseconds(20)));
    }
  }

  std::mutex polling_;
  std::atomic<bool> frozen_{false}, parked_{false}, stopping_{false}, closed_{false};
  std::vector<std::string> received_;
  std::thread thread_;
};

// A socket for sending arbitrary bytes, for clients that violate the protocol.
class RawSocket {
 public:
  explicit RawSocket(const TestServer& server) : RawSocket(server.port->address()) {}
  explicit RawSocket(const std::string& port_address) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = *parse_socket_address(port_address);
    const timeval limit{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(::connect(fd_.get(), address.get(), address.size), 0);
  }
  bool send(Bytes bytes) {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == ssize_t(bytes.size());
  }
  bool receive(MutableBytes into) {
    return ::recv(fd_.get(), into.data(), into.size(), MSG_WAITALL) == static_cast<ssize_t>(into.size());
  }
  // Whether the server has hung up; skips what it sent before.
  bool is_closed() {
    std::byte rest[4096];
    for (;;) {
      const ssize_t got = ::recv(fd_.get(), rest, sizeof rest, 0);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
      if (got < 0) return false;
    }
  }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    fd_ = Fd();
  }
  int fd() const { return fd_.get(); }

  // Authenticates; afterwards come frames (without encryption).
  bool shake_hands(uint64_t session = 1, bool encrypt = false) {
    return shake_hands(session, key_of(session), encrypt);
  }
  bool shake_hands(uint64_t session, const ConnectionKey& key, bool encrypt) {
    hello = make_hello(session, encrypt);
    if (!send(hello)) return false;
    Challenge challenge;
    if (!receive(challenge)) return false;
    handshake.emplace(key, hello, Bytes(challenge).first(random_size));
    return send(handshake->proof());
  }
  bool send_frame(const Frame& frame, Bytes payload = {}) {
    FrameHead head;
    const size_t size = encode(frame, head);
    return send(Bytes(head).first(size)) && (payload.empty() || send(payload));
  }
  bool receive_frame(Frame& frame, Side side = Side::client) {
    FrameHead head;
    if (!receive(MutableBytes(head).first(prefix_size))) return false;
    const size_t size = head_size(static_cast<uint8_t>(head[0]));
    if (size > prefix_size && !receive(MutableBytes(head).subspan(prefix_size, size - prefix_size))) return false;
    const auto decoded = decode(Bytes(head).first(size), side, 16 * KiB);
    if (!decoded) return false;
    frame = *decoded;
    return true;
  }

  Hello hello;
  std::optional<Handshake> handshake;

 private:
  Fd fd_;
};

}  // namespace verbena::fabric::tcp
