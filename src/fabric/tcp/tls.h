// TLS 1.3 with an external pre-shared key and no certificates (RFC 8446, section 4.2.11): psk_dhe_ke,
// TLS_AES_128_GCM_SHA256. Its output goes to a buffer of the thread, so that many records leave with one system call.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "base/bytes.h"
#include "base/hmac.h"
#include "base/result.h"
#include "fabric/tcp/frame.h"

namespace verbena::fabric::tcp {

inline constexpr size_t record_size = 16 * KiB;  // plain bytes of one TLS record at most

// Limits for a peer that has the key: bytes of its handshake; records that one call opens, however short; messages of
// TLS's own afterwards (key updates): this many, and one more for each so many records.
inline constexpr size_t handshake_bytes_max = 16 * KiB;
inline constexpr size_t records_at_once_max = 64;
inline constexpr uint64_t own_messages_max = 8;
inline constexpr uint64_t records_per_own_message = 1024;

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, SslFree>;

// The records made on this thread since the last take.
MutableBytes cipher_text();
void clear_cipher_text();

enum class HandshakeState : uint8_t { complete, needs_input };

// Reads `socket` itself. Does not own it. The key is erased by the handshake.
class Tls {
 public:
  static Result<std::unique_ptr<Tls>> make(Side side, int socket, const Sha256& key);
  ~Tls();
  Tls(const Tls&) = delete;

  // One step. access_denied: the peer does not have the key.
  Result<HandshakeState> handshake();
  // Seals `plain` (at most a record) into cipher_text().
  Result<void> seal(Bytes plain);
  // `drained`: nothing more until the socket is readable again. closed: the peer ended the stream. malformed: not TLS.
  // May leave output for the peer in cipher_text(), also with an error.
  struct Opened {
    size_t size = 0;
    bool drained = false;
  };
  Result<Opened> open(MutableBytes into);

  // Keys are updated after so many records: AES-GCM is safe for 2^24.5 of the longest (RFC 8446, section 5.5).
  uint64_t records_per_key = uint64_t{1} << 23;

 private:
  friend struct TlsAccess;
  Tls() = default;

  SslPtr ssl_;
  Sha256 key_{};
  int socket_ = -1;
  bool ready_ = false;
  bool ended_ = false;
  bool flooded_ = false;  // too many messages of TLS's own
  size_t handshake_bytes_ = 0;
  uint64_t sealed_ = 0;  // records under this key
  uint64_t opened_ = 0;  // records
  uint64_t own_messages_ = 0;
};

}  // namespace verbena::fabric::tcp
