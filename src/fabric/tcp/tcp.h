// fabric/tcp: messages, and one-sided reads and writes as frames, over one authenticated TCP connection per session and
// port. Peers are not trusted: whatever one sends, or fails to read, costs only its own connection.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/core.h"
#include "base/result.h"
#include "fabric/fabric.h"

namespace verbena::fabric::tcp {

struct Options {
  std::string bind_address = "127.0.0.1";
  // Listens on the first free port of this range; 0: any.
  uint16_t port_first = 0;
  uint16_t port_last = 0;
  bool encrypt = true;                 // TLS 1.3; otherwise connections are only authenticated
  size_t message_size_max = 16 * KiB;  // bytes, both directions; both sides use the same

  // Limits of connections that have not authenticated yet: how many, how many of one address (IPv6: one /64), how long.
  // A newer one replaces the oldest.
  size_t arrivals_max = 512;
  size_t arrivals_per_address_max = 64;
  std::chrono::milliseconds arrival_timeout{3000};

  std::chrono::milliseconds send_deadline{10'000};  // a peer that reads nothing for this long is cut off
  size_t queued_per_peer_max = 256 * KiB;           // bytes of messages that wait for a peer; more: would_block
  size_t queued_max = 32 * MiB;                     // of all peers
};

// Server: called before the core runs or on its thread; the port is destroyed likewise. Its address is that of a socket
// (sockaddr_in or sockaddr_in6). Until on_connection() is called it knows no session and accepts no peer. bad_config:
// no port of the range is free, or the address is not one of this host.
Result<std::unique_ptr<Port>> listen(Core& core, const Options& options);

// Client.
struct Dial {
  std::string address;  // from Port::address()
  std::string host;     // an IP address, for a port that listens on every address
  uint64_t session = 0;
  ConnectionKey key;
  bool encrypt = true;  // as configured at the server; the two must agree
  size_t message_size_max = 16 * KiB;
  std::chrono::milliseconds timeout{5000};  // to connect and authenticate
};
// connection_failed: no server listens; closed: the server did not accept us; access_denied: it does not have the key;
// timed_out.
Result<std::unique_ptr<Link>> connect(const Dial& dial);

}  // namespace verbena::fabric::tcp
