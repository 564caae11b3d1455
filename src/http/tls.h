// The server's TLS context. Internal to http/.
#pragma once

#include <boost/asio/ssl/context.hpp>

#include "http/server.h"

namespace verbena::http {

// What a client has shown of itself, as Exchange::peer_certificates(). Of a connection that goes on from another one
// nothing: it has proven no more than that it knows that one's secret.
std::vector<std::string> peer_certificates_of(const SSL* ssl);

// TLS 1.2 and up, ALPN "http/1.1". bad_config when a file cannot be read, is no PEM, or key and certificate do not fit.
Result<boost::asio::ssl::context> make_tls_context(const TlsFiles& files);

// Records that a peer sent since somebody began to wait for its bytes. OpenSSL reads on by itself while they bring none
// (new keys, renegotiations that are refused), each dearer to us than to who sends it: past the most it stops there, as
// if the peer had left.
struct TlsRecords {
  static constexpr unsigned most = 64;
  unsigned count = 0;
};
void watch_records(SSL* ssl, TlsRecords& records);

}  // namespace verbena::http
