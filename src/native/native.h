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
#include "auth/guesses.h"
#include "base/core.h"
#include "fabric/fabric.h"
#include "http/access_log.h"
#include "http/server.h"
#include "observe/request_watch.h"
#include "observe/tracer.h"
#include "s3/service.h"
#include "store/change_feed.h"

namespace verbena::native {

struct Options {
  size_t sessions_max = 4096;        // of the process; more: slow_down
  size_t account_sessions_max = 0;   // of them one account's; 0: no limit
  size_t client_sessions_max = 0;    // from one address, or IPv6 /64; 0: no limit
  size_t reserved_sessions = 0;      // for the superuser alone
  uint32_t credits = 64;             // requests in flight per session and endpoint
  uint32_t inline_max_bytes = 4096;  // fabrics between hosts
  // On one host a copy through the shared window is cheaper than a MAC over the same bytes.
  uint32_t local_inline_max_bytes = 512;
  std::chrono::seconds idle_timeout{600};                // a session without a message for this long ends
  std::chrono::seconds hello_timeout{30};                // a session must be used within this
  std::chrono::milliseconds operation_deadline{10'000};  // of one one-sided operation
  std::chrono::milliseconds reply_deadline{10'000};      // a client that does not take its replies for so long is gone
  // Who tells what becomes of keys; nullptr: nobody can, so that nothing can be watched.
  store::ChangeFeeds* feeds = nullptr;
  size_t watches_max = 4096;                            // of the process; half of them one account's or address's
  uint64_t watch_bytes_max = 32 * MiB;                  // of changes that wait for who watches, likewise
  std::chrono::milliseconds watch_deaf_after{60'000};   // without a question for so long nothing waits for a watch
  std::chrono::milliseconds watch_ends_after{300'000};  // nor is there one
  http::AccessLog* access_log = nullptr;                // nullptr: none
  observe::RequestWatch* watch = nullptr;               // likewise: who watches requests
  observe::Tracer* tracer = nullptr;                    // likewise: who traces some of them
  auth::Guesses* guesses = nullptr;                     // counts wrong signatures; nullptr: nobody does
  // May the server dial the fabric address that a client told in HELLO? Default: the address is an IP socket address
  // whose IP is the one its HTTP request came from, or, if that came over loopback, one of this host's own.
  std::function<bool(std::string_view provider, std::string_view address, std::string_view http_peer)> may_dial{};
};

class NativeDoor {
 public:
  // The references outlive the door.
  NativeDoor(s3::Service& service, const auth::Verifier& verifier, const auth::CredentialStore& credentials,
             Options options);
  ~NativeDoor();
  NativeDoor(const NativeDoor&) = delete;

  // Serves `port`, which belongs to `core`, from now on. Call on the core's thread or before it runs, and before any
  // session is made. `address`: what clients dial; empty: port.address() (ofi). For `local` the socket's path.
  // bad_config when the port's messages are too short for the protocol. `port` lives until the door has stopped.
  Result<void> attach(Core& core, fabric::Port& port, std::string_view provider, std::string address = {});

  // A port that this server listens on. A session's address must not name one of them on this host's own addresses,
  // whatever may_dial says. Before the cores run.
  void add_own_port(uint16_t port);

  // For the listener on 9100: POST /-/session (signed). Usable on any core. Valid while the door lives.
  http::Handler session_handler();

  // Refuses new sessions (service_unavailable) and requests (slow_down). Any thread.
  void stop();
  // Requests being served. Any thread.
  size_t in_flight() const;
  size_t sessions() const;

  // Any thread. Numbers are those of a second ago.
  struct SessionView {
    uint64_t id = 0;
    auth::Identity identity;
    std::string peer_address, providers;  // "local, tcp"
    int64_t opened_us = 0;                // since the epoch
    std::chrono::nanoseconds idle{};
    uint64_t requests = 0, bytes_in = 0, bytes_out = 0, windows = 0;  // served so far; windows that it lent
    uint32_t in_flight = 0, lanes = 0;
  };
  std::vector<SessionView> list_sessions() const;
  // Its requests end, then it is told. False: there is none of that name.
  bool end_session(uint64_t id);
  // What went by each provider, since the start.
  struct Moved {
    std::string provider;
    uint64_t requests = 0, bytes_in = 0, bytes_out = 0;
  };
  std::vector<Moved> moved() const;

  // A turn for what waits for one, which else comes when the core polls: for who drives its loop step by step.
  size_t poll();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace verbena::native
