// The native door: sessions made by one signed HTTP request, then messages on a fabric (docs/native-protocol.md).
//
//   NativeDoor door(service, verifier, credentials, options);
//   for each core and each of its ports:  door.attach(core, port, provider, address);   // all before the first request
//   http listener on 9100:                handler = door.session_handler();
//   ...
//   door.stop(); wait until door.in_flight() == 0; stop the cores for good; then destroy door, ports and cores, in any
//   order.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/auth.h"
#include "auth/auth_failures.h"
#include "auth/network_rules.h"
#include "base/core.h"
#include "call/access_log.h"
#include "fabric/fabric.h"
#include "http/server.h"
#include "observe/request_watch.h"
#include "observe/tracer.h"
#include "s3/service.h"
#include "store/change_feed.h"

namespace verbena::memory::cuda {
class Devices;
}

namespace verbena::native {

struct Options {
  size_t sessions_max = 4096;        // of the process; more: slow_down
  size_t account_sessions_max = 0;   // limit per account; 0: no limit
  size_t client_sessions_max = 0;    // from one address, or IPv6 /64; 0: no limit
  size_t reserved_sessions = 0;      // for the superuser alone
  uint32_t credits = 64;             // requests in flight per session and endpoint
  uint32_t inline_max_bytes = 4096;  // fabrics between hosts
  // On one host a copy through the shared window is cheaper than a MAC over the same bytes.
  uint32_t local_inline_max_bytes = 512;
  std::chrono::seconds idle_timeout{600};                // a session without a message for this long ends
  std::chrono::seconds hello_timeout{30};                // a session must be used within this
  std::chrono::milliseconds operation_deadline{10'000};  // of one one-sided operation
  std::chrono::milliseconds reply_deadline{10'000};      // a client that takes no replies for so long is disconnected
  // Change feed; nullptr: watches are disabled.
  store::ChangeFeeds* feeds = nullptr;
  size_t watches_max = 4096;                            // of the process; at most half for one account or address
  uint64_t watch_bytes_max = 32 * MiB;                  // of queued changes, likewise
  std::chrono::milliseconds watch_deaf_after{60'000};   // without a request for so long a watch has no queue
  std::chrono::milliseconds watch_ends_after{300'000};  // and is removed
  // What leases hold: of the process; at most half for one account, a quarter for one session on one endpoint.
  uint64_t lease_keys_max = 1 << 18;  // 0: no leases
  uint64_t lease_bytes_max = 256 * GiB;
  // GPUs that copy for the server; empty, or null now: none.
  std::function<std::shared_ptr<memory::cuda::Devices>()> devices{};
  size_t session_device_mappings_max = 1024;  // a mapping for each allocation and endpoint
  uint64_t session_device_bytes_max = 16 * TiB;
  size_t account_device_mappings_max = 8192;
  uint64_t account_device_bytes_max = 64 * TiB;
  call::AccessLog* access_log = nullptr;         // nullptr: none
  observe::RequestWatch* watch = nullptr;        // likewise: live view of requests
  observe::Tracer* tracer = nullptr;             // likewise: traces of some requests
  auth::AuthFailures* auth_failures = nullptr;   // counts wrong signatures; nullptr: not counted
  const auth::NetworkRules* networks = nullptr;  // of clients' addresses; nullptr: none
  // Decides whether the server may dial the fabric address in a client's HELLO. Default: an IP socket address whose IP
  // is the one that its HTTP request came from, or, if that came over loopback, one of this host's own.
  std::function<bool(std::string_view provider, std::string_view address, std::string_view http_peer)> may_dial{};
};

class NativeDoor {
 public:
  // The references must outlive the door.
  NativeDoor(s3::Service& service, const auth::Verifier& verifier, const auth::CredentialStore& credentials,
             Options options);
  ~NativeDoor();
  NativeDoor(const NativeDoor&) = delete;

  // Serves `port`, which belongs to `core`, from now on. Call on the core's thread or before it runs, and before any
  // session is made. `address`: for clients to dial; empty: port.address() (ofi). For `local` the socket's path.
  // bad_config when the port's messages are too short for the protocol. `port` lives until the door has stopped.
  Result<void> attach(Core& core, fabric::Port& port, std::string_view provider, std::string address = {});

  // Adds a port that this server listens on. A session's address must not name such a port on this host's own
  // addresses, whatever may_dial returns. Before the cores run.
  void add_own_port(uint16_t port);

  // For the listener on 9100: POST /-/session (signed). Usable on any core. Valid while the door lives.
  http::Handler session_handler();

  // Refuses new sessions (service_unavailable) and requests (slow_down). Any thread.
  void stop();
  // The number of requests in progress. Any thread.
  size_t in_flight() const;
  size_t sessions() const;

  // A view of a session, from any thread. Numbers are up to a second old.
  struct SessionView {
    uint64_t id = 0;
    auth::Identity identity;
    std::string peer_address, providers;  // "local, tcp"
    int64_t opened_us = 0;                // since the epoch
    std::chrono::nanoseconds idle{};
    uint64_t requests = 0, bytes_in = 0, bytes_out = 0, windows = 0;  // served so far; windows that it lent
    uint32_t in_flight = 0, streams = 0;
    bool has_forward_secrecy = false;
    // The cipher of the endpoints in use that are sealed: "aes-256-gcm"; empty: none is.
    std::string_view sealed{};
  };
  std::vector<SessionView> list_sessions() const;
  // Ends the session after its requests, and notifies the client. False: no session of that id.
  bool end_session(uint64_t id);
  // Bytes moved by each provider since the start.
  struct Moved {
    std::string provider;
    uint64_t requests = 0, bytes_in = 0, bytes_out = 0;
  };
  std::vector<Moved> moved() const;

  // Runs waiting work once, as the core's poll does: for tests that drive its loop step by step.
  size_t poll();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace verbena::native
