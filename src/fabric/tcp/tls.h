// TLS 1.3 with an external pre-shared key and no certificates (RFC 8446, section 4.2.11): psk_dhe_ke,
// TLS_AES_128_GCM_SHA256. What it writes goes to a buffer of the thread, so that many records leave with one system
// call.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "base/bytes.h"
#include "base/hmac.h"
#include "base/result.h"
#include "fabric/tcp/frame.h"

namespace verbena::fabric::tcp {

inline constexpr size_t record_size = 16 * KiB;  // plain bytes of one TLS record at most

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, SslFree>;

// What records were made on this thread since it was last taken away.
MutableBytes cipher_text();
void clear_cipher_text();

// Reads `socket` itself. Does not own it. The key is used up by the handshake.
class Tls {
 public:
  static Result<std::unique_ptr<Tls>> make(Side side, int socket, const Sha256& key);
  ~Tls();
  Tls(const Tls&) = delete;

  // True: done. would-be-blocked is false, not an error. access_denied: the peer does not have the key.
  Result<bool> handshake();
  // Seals `plain` (at most a record) into cipher_text().
  Result<void> seal(Bytes plain);
  // 0: nothing more now. closed: the peer ended the stream.
  Result<size_t> open(MutableBytes into);

 private:
  friend struct TlsAccess;
  Tls() = default;

  SslPtr ssl_;
  Sha256 key_{};
  int socket_ = -1;
  bool ended_ = false;
};

}  // namespace verbena::fabric::tcp
