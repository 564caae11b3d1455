// A server for tests that answers each request with the bytes of a script.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace verbena::net {

struct ScriptedRequest {
  std::string head;  // request line and headers
  std::string body;
  bool has(std::string_view text) const { return head.find(text) != std::string::npos; }
};

class ScriptedServer {
 public:
  // Returns the raw reply; an empty one closes the connection without a reply. Called on the server's threads.
  using Script = std::function<std::string(const ScriptedRequest&, int number)>;

  explicit ScriptedServer(Script script)
      : ScriptedServer([this, script = std::move(script)](int fd) { serve(fd, script); }) {}
  // `act` handles each connection from its first byte on; the connection is closed afterwards.
  explicit ScriptedServer(std::function<void(int fd)> act) : act_(std::move(act)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_, 16);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepter_ = std::thread([this] { accept_all(); });
  }
  ~ScriptedServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    accepter_.join();
    {
      std::lock_guard lock(mutex_);
      for (int fd : connections_) ::shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    for (int fd : connections_) ::close(fd);
    ::close(listener_);
  }

  // Refuses new connections and cuts off existing ones.
  void refuse() {
    ::shutdown(listener_, SHUT_RDWR);
    std::lock_guard lock(mutex_);
    for (int fd : connections_) ::shutdown(fd, SHUT_RDWR);
  }
  uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int connections() const {
    std::lock_guard lock(mutex_);
    return static_cast<int>(connections_.size());
  }
  std::vector<ScriptedRequest> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void accept_all() {
    while (!stopping_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      std::lock_guard lock(mutex_);
      connections_.push_back(fd);
      threads_.emplace_back([this, fd] {
        act_(fd);
        ::shutdown(fd, SHUT_RDWR);
      });
    }
  }
  void serve(int fd, const Script& script) {
    std::string buffer;
    ScriptedRequest request;
    while (read_request(fd, buffer, request)) {
      int number = 0;
      {
        std::lock_guard lock(mutex_);
        number = static_cast<int>(requests_.size());
        requests_.push_back(request);
      }
      const std::string reply = script(request, number);
      if (reply.empty() || ::send(fd, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) break;
      if (reply.find("connection: close") != std::string::npos) break;
    }
  }
  static bool read_request(int fd, std::string& buffer, ScriptedRequest& request) {
    size_t end = 0;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
      if (!more(fd, buffer)) return false;
    }
    request.head = buffer.substr(0, end + 2);
    buffer.erase(0, end + 4);
    size_t length = 0;
    if (const size_t at = request.head.find("content-length: "); at != std::string::npos) {
      length = std::stoul(request.head.substr(at + 16));
    }
    while (buffer.size() < length) {
      if (!more(fd, buffer)) return false;
    }
    request.body = buffer.substr(0, length);
    buffer.erase(0, length);
    return true;
  }
  static bool more(int fd, std::string& buffer) {
    char piece[65536];
    const ssize_t n = ::recv(fd, piece, sizeof piece, 0);
    if (n <= 0) return false;
    buffer.append(piece, static_cast<size_t>(n));
    return true;
  }

  std::function<void(int fd)> act_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<int> connections_;
  std::vector<ScriptedRequest> requests_;
  std::vector<std::thread> threads_;
  std::thread accepter_;
};

inline std::string http_reply(int status, const std::string& headers, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(status) + " Scripted\r\n" + headers +
         "content-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace verbena::net
