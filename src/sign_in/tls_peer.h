// The expected name in a TLS server's certificate.
#pragma once

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <string>

#include "auth/ip_range.h"

namespace verbena::sign_in {

// Before the handshake: a certificate with another name, or another address if `host` is one, fails it.
inline bool name_peer(SSL* ssl, const std::string& host) {
  if (auth::parse_ip(host)) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1;
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return SSL_set1_host(ssl, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

}  // namespace verbena::sign_in
