// TLS as a client: trusted authorities, and the name that a peer's certificate must have.
#pragma once

#include <boost/asio/ssl/context.hpp>

#include <string>
#include <vector>

#include "base/result.h"

namespace verbena::net {

struct TlsTrust {
  std::string ca_file = {};  // PEM; empty: the system's authorities
  bool system_too = false;   // the system's authorities besides those of the file
  bool insecure = false;     // no certificate is checked
};

// TLS 1.2 or newer, and peers' certificates checked as `trust` says. bad_config: the file cannot be read, or is no PEM.
Result<void> trust_authorities(SSL_CTX* tls, const TlsTrust& trust);
Result<boost::asio::ssl::context> make_client_tls(const TlsTrust& trust);

// Trusts certificates of these thumbprints, too, where the peer's chain shows them: SHA-1 as 40 hexadecimal digits of
// either case. The list outlives `tls`.
void trust_thumbprints(SSL_CTX* tls, const std::vector<std::string>& thumbprints);

// Before the handshake: asks for `host` by name (SNI), and expects a certificate of that name, or of that address where
// `host` is one. False: it cannot be expected.
[[nodiscard]] bool name_peer(SSL* tls, const std::string& host);
void ask_for_peer(SSL* tls, const std::string& host);  // the first half alone

// For libraries that are given an address instead of a name: the same for all connections of `tls`. `host` outlives it.
// False: it cannot be expected, and nothing may be connected.
[[nodiscard]] bool expect_host(SSL_CTX* tls, const std::string& host);

}  // namespace verbena::net
