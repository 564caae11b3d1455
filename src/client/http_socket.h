// One TCP connection, plain or TLS, with a deadline on every call. Non-blocking underneath; no call blocks past its
// deadline (name resolution excepted). Never raises SIGPIPE.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <stop_token>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"

namespace verbena::client {

struct SslContextFree {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslContext = std::unique_ptr<SSL_CTX, SslContextFree>;

// A client context: TLS 1.2 or newer, peers verified against `ca_file` (PEM; empty: the system's store), or not at all
// when `insecure`.
Result<SslContext> make_client_tls(const std::string& ca_file, bool insecure);

class HttpSocket {
 public:
  // Tries the name's addresses in order. `tls` may be null. `verify_name`: check the certificate against `host`.
  static Result<std::unique_ptr<HttpSocket>> connect(const std::string& host, uint16_t port, SSL_CTX* tls,
                                                     bool verify_name, Deadline deadline);
  ~HttpSocket();
  HttpSocket(const HttpSocket&) = delete;
  HttpSocket& operator=(const HttpSocket&) = delete;

  // A stop ends the call that waits, and later ones, with `cancelled`.
  void stop_with(std::stop_token stop) { stop_ = std::move(stop); }

  // At least one byte, or an error: timed_out, closed (orderly end), connection_failed.
  Result<size_t> read_some(MutableBytes into, Deadline deadline);
  Result<size_t> write_some(Bytes from, Deadline deadline);

  // Something arrived (or the peer closed) while we were not reading: a kept connection is then of no use, and a
  // request in the middle of its body has been answered early.
  bool readable_now() const;
  // The peer's IP address as text, without port or brackets.
  const std::string& peer_address() const { return peer_address_; }
  // This end's IP address: what the server sees as its peer, unless an address is translated on the way.
  std::string local_address() const;

 private:
  explicit HttpSocket(int fd) : fd_(fd) {}
  Result<void> wait(short events, Deadline deadline) const;
  Result<void> handshake(SSL_CTX* tls, const std::string& host, bool verify_name, Deadline deadline);
  Result<void> wait_tls(int ssl_result, Deadline deadline);

  int fd_;
  std::unique_ptr<SSL, SslFree> ssl_;
  std::string peer_address_;
  std::stop_token stop_;
};

}  // namespace verbena::client
