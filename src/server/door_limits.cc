#include "server/door_limits.h"

#include <algorithm>

namespace verbena::server {
namespace {

// The part of connections and sessions reserved for the server's operator: a sixteenth.
constexpr size_t reserved_part = 16;
constexpr size_t reserved_connections_max = 64;

}  // namespace

http::Limits http_limits(const Config::Http& http) {
  return {.header_bytes_max = http.header_bytes_max,
          .connections_max = http.connections_max,
          .idle_timeout = http.idle_timeout,
          .header_timeout = http.header_timeout,
          .body_stall_timeout = http.body_timeout,
          .body_rate_min = http.body_rate_min};
}

std::shared_ptr<http::ConnectionRoom> make_room(uint64_t connections_max, uint64_t client_max, const char* door) {
  const size_t reserved = std::min<size_t>(connections_max / reserved_part, reserved_connections_max);
  const http::ConnectionRoom::Limits limits{
      .connections_max = connections_max, .client_max = client_max, .reserved = reserved};
  return std::make_shared<http::ConnectionRoom>(limits, door);
}

native::Options native_limits(const Config::Rdma& rdma) {
  native::Options options;
  options.sessions_max = rdma.sessions_max.value();
  options.account_sessions_max = rdma.sessions_per_account_max.value();
  options.client_sessions_max = rdma.sessions_per_client_max.value();
  options.reserved_sessions = options.sessions_max / reserved_part;
  options.credits = static_cast<uint32_t>(rdma.credits);
  options.inline_max_bytes = static_cast<uint32_t>(rdma.inline_bytes_max);
  options.idle_timeout = rdma.session_idle_timeout;
  options.operation_deadline = rdma.operation_timeout;
  options.watches_max = rdma.watches_max;
  options.watch_bytes_max = rdma.watch_bytes_max;
  return options;
}

}  // namespace verbena::server
