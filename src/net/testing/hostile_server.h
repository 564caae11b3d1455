// A server for tests that sends invalid replies.
#pragma once

#include <poll.h>

#include <string_view>

#include "base/bytes.h"
#include "net/testing/scripted_server.h"

namespace verbena::net {

// Runs the test's function on each connection, when a request's head has arrived or at once.
class HostileServer {
 public:
  using Act = std::function<void(HostileServer&, int fd)>;
  enum When { after_the_head, at_once };
  explicit HostileServer(Act act, When when = after_the_head)
      : server_([this, act = std::move(act), when](int fd) {
          if (when == at_once || read_head(fd)) act(*this, fd);
        }) {}
  ~HostileServer() { over_ = true; }

  // False when the client is gone or the test is over.
  bool say(int fd, std::string_view text) {
    while (!text.empty() && !over_) {
      const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) {
        pollfd entry{fd, POLLOUT, 0};
        (void)::poll(&entry, 1, 10);
        continue;
      }
      if (n <= 0) return false;
      said_ += static_cast<size_t>(n);
      text.remove_prefix(static_cast<size_t>(n));
    }
    return !over_;
  }
  void say_forever(int fd, std::string_view text) {
    std::string many;
    while (many.size() < 16 * KiB) many += text;
    while (say(fd, many)) {
    }
  }
  // Discards input until the client closes.
  void wait(int fd) {
    std::string bytes(64 * KiB, '\0');
    while (::recv(fd, bytes.data(), bytes.size(), 0) > 0) {
    }
  }
  size_t said() const { return said_; }
  uint16_t port() const { return server_.port(); }
  int connections() const { return server_.connections(); }

 private:
  static bool read_head(int fd) {
    std::string head;
    for (char byte; !head.ends_with("\r\n\r\n"); head += byte) {
      if (::recv(fd, &byte, 1, 0) != 1) return false;
    }
    return true;
  }

  std::atomic<bool> over_{false};
  std::atomic<size_t> said_{0};
  ScriptedServer server_;
};

}  // namespace verbena::net
