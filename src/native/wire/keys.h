// Session keys. They are never sent: both sides derive them from the secret key that signed the session's request.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace verbena::native::wire {

inline constexpr size_t nonce_size = 16;
using Nonce = std::array<std::byte, nonce_size>;

struct MacKey {
  std::byte bytes[16] = {};
  bool in_envelope =
      false;  // each message is authenticated as a whole by its envelope (fabric/sealed): its MAC is zero
};

// HMAC-SHA256 of the secret key over a label, both nonces and the session id: stored by both sides instead of the
// secret.
struct MasterKey {
  std::array<std::byte, 32> bytes{};
};
MasterKey derive_master(std::string_view secret_key, const Nonce& client, const Nonce& server, uint64_t session);

// One pair per endpoint, so that a message captured on one endpoint is useless on another.
struct StreamKeys {
  MacKey to_server, to_client;
};
// `sealed`: on this endpoint the session's messages travel in envelopes.
StreamKeys derive_stream(const MasterKey& master, uint16_t endpoint, bool sealed = false);

// The proof for a transport that authenticates connections: one for each endpoint.
std::array<std::byte, 32> derive_connection(const MasterKey& master, uint16_t endpoint);

// Hexadecimal HMAC over the session answer's body: proves to the client that the server knows its secret.
std::string answer_proof(const MasterKey& master, std::string_view body);

// The core that serves a key: CRC32C(bucket "/" key) modulo the number of cores.
uint32_t core_of(std::string_view bucket, std::string_view key, uint32_t cores);

}  // namespace verbena::native::wire
