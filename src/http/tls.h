// The server's TLS context. Internal to http/.
#pragma once

#include <boost/asio/ssl/context.hpp>

#include "http/server.h"

namespace verbena::http {

// The client's certificates, for Exchange::peer_certificates(). Empty for a resumed session: it has proved only that it
// knows the earlier one's secret.
std::vector<std::string> peer_certificates_of(const SSL* ssl);

// TLS 1.2 and up, ALPN "http/1.1". bad_config when a file is unreadable or no PEM, or key and certificate do not match.
Result<boost::asio::ssl::context> make_tls_context(const TlsFiles& files);

// The number of a peer's records since a read began to wait. OpenSSL reads on by itself while records bring no data
// (new keys, refused renegotiations), each costlier to us than to the sender: beyond the limit the stream ends, as if
// the peer had closed.
struct TlsRecords {
  static constexpr unsigned most = 64;
  unsigned count = 0;
};
void watch_records(SSL* ssl, TlsRecords& records);

}  // namespace verbena::http
