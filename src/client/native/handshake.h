// The signed HTTP request that opens a native session.
#pragma once

#include <chrono>
#include <vector>

#include "client/native/session.h"
#include "native/wire/keys.h"

namespace verbena::client {

// The terms on which the server has opened a session, from its authenticated answer.
struct SessionTerms {
  unsigned version = 1;  // of the protocol
  // Whether the session's keys need ephemeral ones that are gone: what was recorded stays closed when the secret key
  // leaks later.
  bool has_forward_secrecy() const { return version >= native::wire::version_of_key_exchange; }
  uint64_t session = 0;
  native::wire::MasterKey master;
  uint32_t credits = 0;  // per endpoint
  uint32_t cores = 0;
  std::chrono::seconds idle_timeout{0};
  bool trace_context = false;  // messages may carry a trace context
  struct Devices {
    // Devices of this kind copy for the server, in memory that is shared by handles, or by descriptors.
    bool handles = false, descriptors = false;
  };
  Devices cuda, rocm;
  std::vector<NativeEndpoint> endpoints;
  std::string server_ip;
};

// Errors: the server's Errc for a refusal; connection_failed; unsupported: another service answers there; malformed:
// the answer is invalid, or its proof does not match; cancelled.
Result<SessionTerms> request_session(const NativeOptions& options, const std::stop_token& stop = {});

// For tests and the fuzzer: an answer's body, its proof checked or ignored. Fills all but master and server_ip.
struct NativeAnswer {
  SessionTerms terms;
  native::wire::Nonce server_nonce{};
  EphemeralKey::Public server_key{};  // from version 9 on
};
Result<NativeAnswer> parse_session_answer(std::string_view body);

}  // namespace verbena::client
