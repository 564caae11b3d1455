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
};

// HMAC-SHA256 of the secret key over a label, both nonces and the session id: what both sides keep instead of the
// secret.
struct MasterKey {
  std::array<std::byte, 32> bytes{};
};
MasterKey derive_master(std::string_view secret_key, const Nonce& client, const Nonce& server, uint64_t session);

// One pair per endpoint, so that a message caught on one endpoint is worth nothing on another.
struct LaneKeys {
  MacKey to_server, to_client;
};
LaneKeys derive_lane(const MasterKey& master, uint16_t endpoint);

// What a transport that authenticates connections proves one with: one for each endpoint.
std::array<std::byte, 32> derive_connection(const MasterKey& master, uint16_t endpoint);

// Hexadecimal HMAC over the session answer's body: shows the client that the answer came from a holder of its secret.
std::string answer_proof(const MasterKey& master, std::string_view body);

// The core that a key's requests go to: CRC32C(bucket "/" key) modulo the number of cores.
uint32_t core_of(std::string_view bucket, std::string_view key, uint32_t cores);

}  // namespace verbena::native::wire
