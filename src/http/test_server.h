// For tests: a listener on its own core with a handler controlled by the path, and a blocking client.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/server.h"
#include "memory/arena.h"

namespace verbena::http {

inline memory::Arena& test_arena() {
  static std::unique_ptr<memory::Arena> arena = [] {
    auto made = memory::Arena::create(64 * MiB);
    if (!made) throw std::runtime_error("arena");
    return std::move(*made);
  }();
  return *arena;
}

// Byte i of every test body.
inline char pattern_byte(uint64_t i) { return static_cast<char>('a' + (i * 7 + i / 251) % 26); }
inline std::string pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = pattern_byte(i);
  return text;
}

inline std::atomic<int> test_cuts{0};  // sinks that failed, as seen by their handlers

inline Task<void> send_pattern(Exchange& exchange, uint64_t size) {
  s3::Response response;
  memory::Sink& sink = exchange.sink(response);
  auto ok = co_await sink.begin(size);
  for (uint64_t at = 0; ok && at < size;) {
    auto lease = test_arena().lease(static_cast<size_t>(std::min<uint64_t>(size - at, 1 * MiB)));
    if (!lease) {
      ok = std::unexpected(lease.error());
      break;
    }
    const auto bytes = lease->bytes();
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(pattern_byte(at + i));
    at += bytes.size();
    memory::Chunk chunk{std::move(*lease), bytes};  // named: see base/task.h
    ok = co_await sink.push(std::move(chunk));
  }
  if (ok) ok = co_await sink.finish();
  if (!ok) ++test_cuts;
}

inline Task<void> echo_body(Exchange& exchange) {
  std::string body;
  std::vector<std::byte> piece(64 * KiB);
  s3::Response response;
  for (;;) {
    auto n = co_await exchange.body().read(piece);
    if (!n) {
      response.status = 400;
      response.body = to_string(n.error().code);
      break;
    }
    body += as_text(Bytes(piece).first(*n));
    if (*n < piece.size()) {
      response.body = std::move(body);
      break;
    }
  }
  (void)co_await exchange.reply(response);
}

inline Task<void> act_on_path(Exchange& exchange) {
  const std::string path(exchange.path());
  s3::Response response;
  if (path.starts_with("/signed")) exchange.vouch();
  if (path == "/echo" || path == "/signed-echo") {
    co_await echo_body(exchange);
  } else if (path == "/send") {
    uint64_t size = 0;
    const auto query = exchange.query();
    std::from_chars(query.data(), query.data() + query.size(), size);
    co_await send_pattern(exchange, size);
  } else if (path == "/refuse") {
    response.status = 403;
    response.body = "refused";
    (void)co_await exchange.reply(response);
  } else if (path == "/short") {
    memory::Sink& sink = exchange.sink(response);
    (void)co_await sink.begin(100);
    auto lease = test_arena().lease(10);
    const Bytes bytes = lease->bytes();
    memory::Chunk chunk{std::move(*lease), bytes};
    (void)co_await sink.push(std::move(chunk));
  } else if (path == "/throw") {
    throw std::runtime_error("a handler's bug");
  } else if (path != "/nothing") {
    response.headers.emplace_back("x-seen",
                                  std::string(exchange.method()) + " " + path + "?" + std::string(exchange.query()));
    response.headers.emplace_back("x-split", "a\r\nevil: b");
    for (const auto& [name, value] : exchange.headers()) {
      if (name == "host") response.headers.emplace_back("x-host", value);
    }
    response.no_body = exchange.method() == "HEAD";
    response.content_length = 42;
    response.body = "hello";
    (void)co_await exchange.reply(response);
  }
}

class TestServer {
 public:
  explicit TestServer(Limits limits = {}, std::optional<TlsFiles> tls = {}, Handler handler = act_on_path) : core_({}) {
    auto made = listen(core_, "127.0.0.1", 0, limits, std::move(tls), std::move(handler));
    if (!made) throw std::runtime_error(describe(made.error()));
    listener_ = std::move(*made);
    thread_ = std::thread([this] { core_.run(); });
  }
  ~TestServer() { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    core_.stop();
    thread_.join();
  }
  Listener& listener() { return *listener_; }
  uint16_t port() const { return listener_->port(); }
  // Waits for that many open connections; false after ten seconds.
  bool wait_for_connections(size_t count) {
    for (int i = 0; i < 10'000; ++i) {
      if (listener_->connections() == count) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

 private:
  Core core_;
  std::unique_ptr<Listener> listener_;
  std::thread thread_;
};

struct Answer {
  int status = 0;  // 0: the connection closed before a whole head
  std::string head, body;
  bool whole = false;  // the body has the length that the head declares
  std::string header(std::string_view name) const {
    const std::string key = "\r\n" + std::string(name) + ": ";
    const size_t at = head.find(key);
    if (at == std::string::npos) return {};
    const size_t start = at + key.size();
    return head.substr(start, head.find("\r\n", start) - start);
  }
};

class TestClient {
 public:
  explicit TestClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) close();
    const timeval patience{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  TestClient(TestClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)), rest_(std::move(other.rest_)) {}
  ~TestClient() { close(); }

  bool connected() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // The next answer; `head`: no body follows, whatever the length says.
  Answer read(bool head = false) {
    Answer answer;
    size_t end;
    while ((end = rest_.find("\r\n\r\n")) == std::string::npos) {
      if (!more()) return answer;
    }
    answer.head = rest_.substr(0, end + 2);
    rest_.erase(0, end + 4);
    answer.status = std::atoi(answer.head.c_str() + 9);
    const std::string length = answer.header("Content-Length");
    const size_t size = head || length.empty() ? 0 : std::stoull(length);
    while (rest_.size() < size && more()) {
    }
    answer.whole = rest_.size() >= size;
    answer.body = rest_.substr(0, size);
    rest_.erase(0, answer.body.size());
    return answer;
  }
  Answer ask(std::string_view request) {
    send(request);
    return read(request.starts_with("HEAD"));
  }
  // True if the server closed the connection with nothing left to read.
  bool closed() { return rest_.empty() && !more(); }

 private:
  bool more() {
    char piece[16384];
    const ssize_t n = ::recv(fd_, piece, sizeof piece, 0);
    if (n > 0) rest_.append(piece, static_cast<size_t>(n));
    return n > 0;
  }
  int fd_;
  std::string rest_;
};

}  // namespace verbena::http
