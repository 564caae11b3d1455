// A server that only sends: HTTP answers from memory, with one sendmsg each, to any request that ends with an empty
// line. A server's CPU time beyond this is its own; this much is the kernel's for plain sends, which nginx's sendfile
// from the page cache partly saves.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <map>
#include <thread>

#include "base/fd.h"
#include "cli/bench/loop.h"
#include "net/http_client.h"
#include "yardsticks/yardsticks.h"

namespace verbena::yardsticks {
namespace {

class PlainSender {
 public:
  explicit PlainSender(uint64_t size);
  ~PlainSender();
  uint16_t port() const { return port_; }
  std::optional<double> cpu_seconds();

 private:
  struct Connection {
    Fd socket;
    std::string asked;
    size_t left = 0;  // of the answer being sent
    bool waits = false;
  };
  void run();
  void accept_all();
  bool serve(Connection& connection);
  bool answer(Connection& connection);
  void watch(int fd, uint32_t events, int operation);

  std::string head_;
  std::vector<std::byte> body_;
  Fd listener_, epoll_, stop_;
  uint16_t port_ = 0;
  std::map<int, Connection> connections_;
  std::thread thread_;
};

PlainSender::PlainSender(uint64_t size)
    : head_(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", size)),
      body_(size),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  cli::fill_pattern(body_, 1);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_.get(), at, length) != 0 || ::listen(listener_.get(), 512) != 0) return;
  ::getsockname(listener_.get(), at, &length);
  port_ = ntohs(address.sin_port);
  watch(listener_.get(), EPOLLIN, EPOLL_CTL_ADD);
  watch(stop_.get(), EPOLLIN, EPOLL_CTL_ADD);
  thread_ = std::thread([this] { run(); });
}

PlainSender::~PlainSender() {
  ::eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

std::optional<double> PlainSender::cpu_seconds() {
  clockid_t clock;
  timespec used;
  if (::pthread_getcpuclockid(thread_.native_handle(), &clock) != 0 || ::clock_gettime(clock, &used) != 0) return {};
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

void PlainSender::watch(int fd, uint32_t events, int operation) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  ::epoll_ctl(epoll_.get(), operation, fd, &event);
}

void PlainSender::run() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == stop_.get()) return;
      if (fd == listener_.get()) {
        accept_all();
      } else if (const auto found = connections_.find(fd); found != connections_.end() && !serve(found->second)) {
        connections_.erase(found);
      }
    }
  }
}

void PlainSender::accept_all() {
  for (;;) {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    const int on = 1, fd = socket.get();
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(fd, EPOLLIN, EPOLL_CTL_ADD);
    connections_[fd].socket = std::move(socket);
  }
}

// One request at a time, since our client does not pipeline. False: the client has closed.
bool PlainSender::serve(Connection& connection) {
  if (connection.left != 0) return answer(connection);
  std::array<char, 4096> piece;
  const ssize_t n = ::recv(connection.socket.get(), piece.data(), piece.size(), 0);
  if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
  if (n > 0) connection.asked.append(piece.data(), static_cast<size_t>(n));
  if (!connection.asked.ends_with("\r\n\r\n")) return connection.asked.size() < piece.size();
  connection.asked.clear();
  connection.left = head_.size() + body_.size();
  return answer(connection);
}

bool PlainSender::answer(Connection& connection) {
  const size_t whole = head_.size() + body_.size();
  while (connection.left != 0) {
    const size_t sent = whole - connection.left, of_head = std::min(sent, head_.size());
    iovec parts[] = {{head_.data() + of_head, head_.size() - of_head},
                     {body_.data() + (sent - of_head), body_.size() - (sent - of_head)}};
    const msghdr message{.msg_name = nullptr,
                         .msg_namelen = 0,
                         .msg_iov = parts,
                         .msg_iovlen = 2,
                         .msg_control = nullptr,
                         .msg_controllen = 0,
                         .msg_flags = 0};
    const ssize_t n = ::sendmsg(connection.socket.get(), &message, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) return false;
    if (n < 0) break;
    connection.left -= static_cast<size_t>(n);
  }
  if (const bool waits = connection.left != 0; waits != std::exchange(connection.waits, waits)) {
    watch(connection.socket.get(), waits ? EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
  }
  return true;
}

Outcome<BenchRow> measure_one(uint64_t size, unsigned concurrency, const BenchPlan& plan) {
  BenchRow row;
  row.door = "plain";
  row.provider = "http";
  row.op = "get";
  row.size = size;
  row.concurrency = concurrency;
  PlainSender sender(size);
  auto http = net::HttpClient::create({.host = "127.0.0.1", .port = sender.port()});
  if (!http) return client::fault(http.error(), "plain");
  std::vector<std::vector<std::byte>> buffers(concurrency, std::vector<std::byte>(size));
  std::vector<cli::BenchCaller> callers;
  for (auto& buffer : buffers) {
    callers.push_back({.op = [&http, &buffer]() -> Outcome<> {
      const auto reply = (*http)->request({.method = "GET", .target = "/", .into = MutableBytes(buffer)});
      if (!reply) return client::fault(reply.error(), "plain");
      if (reply->status != 200 || reply->body_bytes != buffer.size()) {
        return client::fault(ErrorCode::malformed_reply, "plain: a GET came back short");
      }
      return {};
    }});
    OUT_TRY(callers.back().op());
  }
  OUT_TRY(cli::run_callers(callers, plan, [&] { return sender.cpu_seconds(); }, row));
  return row;
}

}  // namespace

Rows measure_plain_sends(const BenchPlan& plan) {
  std::vector<BenchRow> rows;
  for (const uint64_t size : plan.sizes) {
    for (const unsigned concurrency : plan.concurrency) {
      auto row = measure_one(size, concurrency, plan);
      if (!row) return std::unexpected(row.error().message);
      rows.push_back(std::move(*row));
    }
  }
  return rows;
}

}  // namespace verbena::yardsticks
