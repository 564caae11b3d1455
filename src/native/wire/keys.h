// Session keys. They are never sent: both sides derive them from the secret key that signed the session's request and,
// from version 9 on, from a secret of this session alone (base/ephemeral_key.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/ephemeral_key.h"
#include "base/hmac.h"

namespace verbena::native::wire {

// The version from which the two sides of a session exchange ephemeral keys, and its keys have forward secrecy.
inline constexpr unsigned version_of_key_exchange = 9;

inline constexpr size_t nonce_size = 16;
using Nonce = std::array<std::byte, nonce_size>;

struct MacKey {
  std::byte bytes[16] = {};
  bool in_envelope =
      false;  // each message is authenticated as a whole by its envelope (fabric/sealed): its MAC is zero
};

// What all keys of a session come from: stored by both sides instead of the secret key, and wiped with the session.
struct MasterKey {
  Sha256 bytes{};
  ~MasterKey() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
};

// Of a session's request and answer.
struct SessionNumbers {
  Nonce client{}, server{};
  uint64_t session = 0;
};
// Up to version 8: HMAC-SHA256 of the secret key over a label, both nonces and the session id.
MasterKey derive_master(std::string_view secret_key, const SessionNumbers& numbers);

// The public side of an exchange of keys.
struct KeyExchange {
  Sha256 request{};  // of the body of the client's request: the client's key is in it, and all that it offered
  EphemeralKey::Public client{}, server{};
};
// From version 9 on: HKDF-SHA256 of the secret that both ephemeral keys lead to, with the key above as salt, and all
// that both sides have told each other as context.
MasterKey derive_master(std::string_view secret_key, const SessionNumbers& numbers, const KeyExchange& exchange,
                        const Secret& shared);

// One pair per endpoint, so that a message captured on one endpoint is useless on another.
struct StreamKeys {
  MacKey to_server, to_client;
};
// `sealed`: on this endpoint the session's messages travel in envelopes.
StreamKeys derive_stream(const MasterKey& master, uint16_t endpoint, bool sealed = false);

// The proof for a transport that authenticates connections: one for each endpoint.
Sha256 derive_connection(const MasterKey& master, uint16_t endpoint);

// Hexadecimal HMAC over the session answer's body: proves to the client that the server knows its secret.
std::string answer_proof(const MasterKey& master, std::string_view body);

// The core that serves a key: CRC32C(bucket "/" key) modulo the number of cores.
uint32_t core_of(std::string_view bucket, std::string_view key, uint32_t cores);

// A nonce or key of the handshake, as its JSON has it. False: it is no hexadecimal text of that many bytes.
bool read_hex(std::string_view text, MutableBytes into);

}  // namespace verbena::native::wire
