// A server on loopback that answers each connection with given bytes, whatever it is asked, and then with the end of
// the stream. For fuzzers of clients: one input, one connection.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/fd.h"

namespace verbena::fuzz {

class AnsweringServer {
 public:
  AnsweringServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_.get(), 16) != 0 ||
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      std::abort();
    }
    port_ = ntohs(address.sin_port);
    std::thread([this] { serve(); }).detach();
  }
  uint16_t port() const { return port_; }

  // What the next connection gets: call before connecting. An earlier one may still be sent to, as a client may end
  // before it has read all.
  void answer_with(std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ = bytes;
  }

 private:
  std::string answer() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

  [[noreturn]] void serve() {
    for (;;) {
      const Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd) continue;
      const std::string bytes = answer();
      std::string_view rest = bytes;
      while (!rest.empty()) {
        const ssize_t n = ::send(fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
        if (n <= 0) break;
        rest.remove_prefix(static_cast<size_t>(n));
      }
      ::shutdown(fd.get(), SHUT_WR);
      char asked[4096];
      while (::recv(fd.get(), asked, sizeof asked, 0) > 0) {
      }
    }
  }

  Fd listener_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::string bytes_;
};

}  // namespace verbena::fuzz
