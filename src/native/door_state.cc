#include "native/door_state.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <cstring>
#include <optional>

#include "native/absent_source.h"

namespace verbena::native {
namespace {

metrics::Counter& bytes_counter(const char* direction, const char* trace) {
  return metrics::counter("verbena_native_bytes_total", "Payload bytes through the native door",
                          {{"direction", direction}, {"way", trace}});
}

std::string_view name_of(size_t type) {
  switch (static_cast<wire::Type>(type)) {
    case wire::Type::hello:
      return "hello";
    case wire::Type::ping:
      return "ping";
    case wire::Type::bye:
      return "bye";
    case wire::Type::get:
      return "get";
    case wire::Type::head:
      return "head";
    case wire::Type::put:
      return "put";
    case wire::Type::del:
      return "delete";
    case wire::Type::list:
      return "list";
    case wire::Type::get_many:
      return "get_many";
    case wire::Type::head_many:
      return "head_many";
    case wire::Type::put_many:
      return "put_many";
    case wire::Type::delete_many:
      return "delete_many";
    case wire::Type::list_values:
      return "list_values";
    case wire::Type::append:
      return "append";
    case wire::Type::rename:
      return "rename";
    case wire::Type::watch:
      return "watch";
    case wire::Type::watch_next:
      return "watch_next";
    case wire::Type::watch_end:
      return "watch_end";
    case wire::Type::match:
      return "match";
    case wire::Type::lease_end:
      return "lease_end";
    case wire::Type::device:
      return "device";
    case wire::Type::device_end:
      return "device_end";
  }
  return {};
}

}  // namespace

Metrics::Metrics()
    : requests{},
      failed{},
      batch_items(metrics::counter("verbena_native_batch_items_total", "Objects requested in batches")),
      inline_in(bytes_counter("in", "inline")),
      inline_out(bytes_counter("out", "inline")),
      window_in(bytes_counter("in", "window")),
      window_out(bytes_counter("out", "window")),
      sessions_made(metrics::counter("verbena_native_sessions_made_total", "Native sessions opened")),
      sessions_refused(metrics::counter("verbena_native_sessions_refused_total", "Native session requests refused")),
      sessions_without_secrecy(
          metrics::counter("verbena_native_sessions_without_forward_secrecy_total",
                           "Native sessions of clients of before protocol version 9, or where this "
                           "machine's OpenSSL has no X25519")),
      sessions(metrics::gauge("verbena_native_sessions", "Native sessions now open")),
      watches(metrics::gauge("verbena_native_watches", "Watches of native sessions now open")),
      watch_changes(metrics::counter("verbena_native_watch_changes_total", "Changes reported to watches")),
      watch_gaps(metrics::counter("verbena_native_watch_gaps_total",
                                  "Times that changes were dropped because a watching client did not take them")) {
  AbsentSource::saved();  // told from the start on
  for (size_t i = 0; i < wire::drop_count; ++i) {
    dropped[i] = &metrics::counter("verbena_native_dropped_total", "Native messages dropped, by reason",
                                   {{"reason", std::string(to_string(static_cast<wire::Drop>(i)))}});
  }
  for (size_t type = 0; type < types_max; ++type) {
    const std::string op(name_of(type));
    if (op.empty()) continue;
    requests[type] = &metrics::counter("verbena_native_requests_total", "Native requests served", {{"op", op}});
    failed[type] =
        &metrics::counter("verbena_native_errors_total", "Native requests answered by an error", {{"op", op}});
  }
}

namespace {

namespace ip = boost::asio::ip;

// Every provider between hosts (tcp, verbs) has IP socket addresses.
std::optional<ip::address> ip_of(std::string_view address) {
  sockaddr_storage told{};
  if (address.size() < sizeof(sockaddr_in) || address.size() > sizeof told) return std::nullopt;
  std::memcpy(&told, address.data(), address.size());
  if (told.ss_family == AF_INET && address.size() == sizeof(sockaddr_in)) {
    return ip::address_v4(ntohl(reinterpret_cast<const sockaddr_in&>(told).sin_addr.s_addr));
  }
  if (told.ss_family == AF_INET6 && address.size() == sizeof(sockaddr_in6)) {
    ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6&>(told).sin6_addr, bytes.size());
    return ip::address_v6(bytes);
  }
  return std::nullopt;
}

// Maps ::ffff:a.b.c.d to a.b.c.d.
ip::address unmapped(const ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, address.to_v6());
  return address;
}

bool is_own(const ip::address& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, &freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    const size_t size = i->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6) continue;
    if (ip_of({reinterpret_cast<const char*>(i->ifa_addr), size}) == address) return true;
  }
  return false;
}

}  // namespace

std::shared_ptr<LeaseBook> DoorState::lease_book(unsigned core) {
  std::shared_ptr<LeaseBook>& book = lease_books[core];
  if (book == nullptr) book = std::make_shared<LeaseBook>(lease_limits);
  return book;
}

Protection protection_of(const EndpointInfo& endpoint, const Session& session) {
  const bool on_wire = endpoint.transport == rdma::Transport::rdma;
  const bool must_seal = !endpoint.takes_plain || (on_wire && session.encryption == RdmaEncryption::required);
  if (endpoint.seals && session.sealing != fabric::Sealing::none) {
    // Who requires encryption is served nothing that a secret key opens years later.
    return must_seal && !session.has_forward_secrecy() ? Protection::refused : Protection::sealed;
  }
  return must_seal ? Protection::refused : Protection::plain;
}

fabric::Sealing cipher_among(const DoorState& door, const Session& session, const std::function<bool(size_t)>& chosen) {
  for (size_t i = 0; i < door.endpoints.size(); ++i) {
    if (chosen(i) && protection_of(door.endpoints[i], session) == Protection::sealed) return session.sealing;
  }
  return fabric::Sealing::none;
}

bool may_dial_peer(std::string_view, std::string_view address, std::string_view http_peer) {
  boost::system::error_code ec;
  const ip::address peer = unmapped(ip::make_address(std::string(http_peer), ec));
  const auto told = ip_of(address);
  if (ec || !told) return false;
  const ip::address wanted = unmapped(*told);
  return wanted == peer || (peer.is_loopback() && is_own(wanted));
}

bool names_own_port(std::string_view address, const std::vector<uint16_t>& ports) {
  const auto told = ip_of(address);
  if (!told) return false;
  uint16_t port = 0;  // sin_port and sin6_port have the same offset
  std::memcpy(&port, address.data() + offsetof(sockaddr_in, sin_port), sizeof port);
  if (std::ranges::find(ports, ntohs(port)) == ports.end()) return false;
  const ip::address wanted = unmapped(*told);
  return wanted.is_loopback() || wanted.is_unspecified() || is_own(wanted);
}

Errc wire_code(Errc code) {
  switch (code) {
    case Errc::would_block:
    case Errc::out_of_memory:
      return Errc::slow_down;
    case Errc::timed_out:
      return Errc::request_timeout;
    case Errc::cancelled:
    case Errc::closed:
      return Errc::service_unavailable;
    case Errc::unsupported:
      return Errc::not_implemented;
    case Errc::malformed:
      return Errc::invalid_request;
    case Errc::too_large:
      return Errc::too_large;  // part of the protocol: the bytes fit neither window nor reply
    case Errc::not_found:
    case Errc::connection_failed:
    case Errc::bad_config:
      return Errc::internal;
    default:
      return code;
  }
}

}  // namespace verbena::native
