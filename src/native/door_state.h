// State shared by all parts of the native door. Private to this room.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "base/metrics.h"
#include "call/observed.h"
#include "call/request_times.h"
#include "native/device_limits.h"
#include "native/leases.h"
#include "native/native.h"
#include "native/session_table.h"
#include "native/watch_limits.h"
#include "native/wire/message.h"
#include "rdma/transport.h"

namespace verbena::native {

struct Metrics {
  static constexpr size_t types_max = 40;
  Metrics();
  metrics::Counter* dropped[wire::drop_count];
  metrics::Counter* requests[types_max];  // by request type; nullptr for types without a counter
  metrics::Counter* failed[types_max];
  metrics::Counter& batch_items;
  metrics::Counter& inline_in;  // bytes
  metrics::Counter& inline_out;
  metrics::Counter& window_in;
  metrics::Counter& window_out;
  metrics::Counter& sessions_made;
  metrics::Counter& sessions_refused;
  metrics::Counter& sessions_without_secrecy;
  metrics::Gauge& sessions;
  metrics::Gauge& watches;
  metrics::Counter& watch_changes;
  metrics::Counter& watch_gaps;
  call::RequestTimes times{call::Door::native};

  void drop(wire::Drop reason) { dropped[static_cast<size_t>(reason)]->add(); }
};

struct EndpointInfo {
  unsigned core = 0;
  std::string provider, address;
  uint32_t inline_max_bytes = 0;
  uint32_t message_size_max = 0;
  bool encrypted = false;   // every session
  bool seals = false;       // sessions that asked for it
  bool takes_plain = true;  // others, too
  rdma::Transport transport = rdma::Transport::tcp;
};

struct DoorState {
  DoorState(s3::Service& service, const auth::Verifier& verifier, const auth::CredentialStore& credentials,
            Options options)
      : service(service),
        verifier(verifier),
        credentials(credentials),
        options(std::move(options)),
        sessions({.sessions_max = this->options.sessions_max,
                  .idle_timeout = this->options.idle_timeout,
                  .hello_timeout = this->options.hello_timeout,
                  .account_max = this->options.account_sessions_max,
                  .client_max = this->options.client_sessions_max,
                  .reserved = this->options.reserved_sessions}),
        lease_limits({.keys_max = this->options.lease_keys_max,
                      .bytes_max = this->options.lease_bytes_max,
                      .memory_bytes_max = service.arena.mapping().size() / 16}),
        device_limits({.session = {this->options.session_device_mappings_max, this->options.session_device_bytes_max},
                       .account = {this->options.account_device_mappings_max, this->options.account_device_bytes_max}}),
        watch_limits({.watches_max = this->options.watches_max, .bytes_max = this->options.watch_bytes_max}) {}

  // Null: no GPU copies for this server.
  std::shared_ptr<memory::cuda::Devices> devices() const { return options.devices ? options.devices() : nullptr; }
  // Called as endpoints are added.
  std::shared_ptr<LeaseBook> lease_book(unsigned core);

  s3::Service& service;
  const auth::Verifier& verifier;
  const auth::CredentialStore& credentials;
  Options options;
  const call::Observers observers{options.access_log, options.watch, options.tracer};
  SessionTable sessions;
  LeaseLimits lease_limits;
  std::map<unsigned, std::shared_ptr<LeaseBook>> lease_books;  // of the cores; complete before the first session
  DeviceLimits device_limits;
  WatchLimits watch_limits;
  NonceMemory nonces;
  Metrics metrics;
  std::atomic<bool> stopping{false};
  std::vector<EndpointInfo> endpoints;  // complete before the first session
  std::vector<uint16_t> own_ports;      // likewise
};

// How the session is served on an endpoint.
enum class Protection : uint8_t { refused, plain, sealed };
Protection protection_of(const EndpointInfo& endpoint, const Session& session);
// The session's cipher if one of the endpoints for whose number `chosen` holds is sealed for it, else none.
fabric::Sealing cipher_among(const DoorState& door, const Session& session, const std::function<bool(size_t)>& chosen);

// The default of Options::may_dial.
bool may_dial_peer(std::string_view provider, std::string_view address, std::string_view http_peer);

// `address` is a socket address of this host with one of `ports`.
bool names_own_port(std::string_view address, const std::vector<uint16_t>& ports);

// Maps internal codes to codes of the protocol.
Errc wire_code(Errc code);

}  // namespace verbena::native
