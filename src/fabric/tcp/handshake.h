// The first bytes of a connection, which authenticate both sides by the session's key. HMAC is HMAC-SHA256.
//
//   client  hello      "VTC" 01, u8 encrypted, 3 zero bytes, u64 session, 16 random bytes
//   server  challenge  16 random bytes, HMAC(key, "verbena-tcp-1 server" 00 hello random)
//   client  proof      HMAC(key, "verbena-tcp-1 client" 00 hello random)
//
// After these come frames, or, encrypted, TLS 1.3 with the pre-shared key HMAC(key, "verbena-tcp-1 tls" 00 hello
// random), which is unique to the connection.
#pragma once

#include <array>
#include <cstdint>

#include "base/hmac.h"
#include "base/result.h"
#include "fabric/fabric.h"

namespace verbena::fabric::tcp {

inline constexpr size_t hello_size = 32;
inline constexpr size_t random_size = 16;
inline constexpr size_t proof_size = 32;
inline constexpr size_t challenge_size = random_size + proof_size;

using Hello = std::array<std::byte, hello_size>;
using Challenge = std::array<std::byte, challenge_size>;
using Proof = std::array<std::byte, proof_size>;

Hello make_hello(uint64_t session, bool encrypt);  // draws its random bytes
struct HelloFields {
  uint64_t session = 0;
  bool encrypt = false;
};
Result<HelloFields> parse_hello(const Hello& hello);  // malformed

// Values that one connection derives from the session's key.
class Handshake {
 public:
  // `random`: the server's.
  Handshake(const ConnectionKey& key, const Hello& hello, Bytes random);
  Challenge challenge() const;
  Proof proof() const;
  Sha256 tls_key() const;

 private:
  Sha256 sign(std::string_view label) const;

  HmacSha256 key_;
  std::array<std::byte, hello_size + random_size> said_;
};

}  // namespace verbena::fabric::tcp
