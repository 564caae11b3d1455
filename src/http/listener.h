// State shared by the connections of one listener. Internal to http/.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/client_counts.h"
#include "base/metrics.h"
#include "http/server.h"

namespace verbena::http {

class Connection;

class ListenerState : public std::enable_shared_from_this<ListenerState> {
 public:
  using tcp = boost::asio::ip::tcp;
  ListenerState(Core& core, Limits limits, std::optional<boost::asio::ssl::context> tls, Handler handler,
                std::shared_ptr<ConnectionRoom> room);
  ~ListenerState();

  Result<uint16_t> bind(std::string_view address, uint16_t port);
  void start();
  void stop();       // no new connections; idle ones go at once
  void close_all();  // every wait of every connection fails

  const Limits& limits() const { return limits_; }
  const Handler& handler() const { return handler_; }
  boost::asio::ssl::context* tls() { return tls_ ? &*tls_ : nullptr; }
  bool stopping() const { return stopping_; }
  Core& core() { return core_; }
  size_t connections() const { return count_.load(std::memory_order_relaxed); }

  // Memory for a head, or the start of one, that is longer than usual. null: the client has enough of them here.
  static constexpr size_t usual_head_bytes = 8 * KiB;
  ClientCounts::Hold large_head(std::string_view address) { return large_heads_.try_hold(client_of(address)); }
  // For discarded bytes, of all connections.
  MutableBytes scratch() { return scratch_; }

  using Place = std::list<Connection*>::iterator;
  Place add(Connection* connection);
  void remove(Place place);

 private:
  static Task<void> accept_loop(std::shared_ptr<ListenerState> self);
  static Task<void> sweep_loop(std::shared_ptr<ListenerState> self);
  Task<void> admit(tcp::socket socket);
  // Closes about that many connections: those with the least activity that have waited longest.
  void yield(size_t count, ConnectionRoom::Need need);

  Core& core_;
  const Limits limits_;
  std::optional<boost::asio::ssl::context> tls_;
  const Handler handler_;
  const std::shared_ptr<ConnectionRoom> room_;
  ConnectionRoom::Yielding yielding_;
  tcp::acceptor acceptor_;
  boost::asio::steady_timer sweep_timer_;
  std::list<Connection*> connections_;
  size_t looked_in_vain_ = 0;  // connections examined by yield() since it last found one with little activity
  std::atomic<size_t> count_{0};
  ClientCounts large_heads_{{.each_max = 64, .clients_max = 0}};
  std::vector<std::byte> scratch_ = std::vector<std::byte>(16 * KiB);
  uint16_t bound_port_ = 0;
  bool stopping_ = false;
  metrics::Gauge& open_gauge_;
  metrics::Counter& accepted_;
  metrics::Counter& accept_failures_;
  metrics::Counter& displaced_;
};

}  // namespace verbena::http
